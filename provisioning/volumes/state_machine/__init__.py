"""Changes of the states of volumes, and their deadlines."""
