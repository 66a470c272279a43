"""Declarations of resources, and the views, checks and documents derived from them, in the dialect of each service."""
