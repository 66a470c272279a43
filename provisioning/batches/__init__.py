"""Actions on many resources together, carried out by the workers."""
