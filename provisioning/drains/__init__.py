"""Plans that empty hosts, and their execution."""
