"""What the resources of the Block Storage API share: lists, bodies, actions and times."""
