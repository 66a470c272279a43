"""Metadata definitions: the properties that images, flavors, volumes and other resources may have, and their values."""
