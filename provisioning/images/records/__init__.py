"""The fields and properties of images, and their uses."""
