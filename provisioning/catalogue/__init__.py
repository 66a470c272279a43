"""The catalogue of cloud images: a signed index, and the images that were added from it."""
