"""Resources of the Compute API, with a module for each."""
