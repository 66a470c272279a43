"""Common parts of the Block Storage resources: lists, bodies, actions and times."""
