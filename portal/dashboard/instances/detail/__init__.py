"""The page of one instance: its head, its actions and its tabs."""
