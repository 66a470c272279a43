"""What agents speak to: their link, their ends of consoles, and the data of images."""
