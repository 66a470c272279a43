"""The signed index of images: its format, its signatures, and where it is read."""
