"""Declarations of the Networking API's resources, and the views, checks and documents derived from them."""
