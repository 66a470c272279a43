"""The EC2 actions, one module for each kind of resource; each registers its actions with ``registry.action``."""
