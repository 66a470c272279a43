"""Services that combine several of the others."""
