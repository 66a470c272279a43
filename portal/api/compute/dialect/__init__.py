"""Nova's parameters, pages and links, and its older versions."""
