"""Records, bits and inspection of images."""
