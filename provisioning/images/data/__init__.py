"""The files of images: the store, downloads, and tasks that write them."""
