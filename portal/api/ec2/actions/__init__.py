"""The actions of EC2, a module for each part of the cloud; each registers its own with ``registry.action``."""
