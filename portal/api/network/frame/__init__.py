"""What a resource of the Networking API declares, and the views, checks and documents that follow from it."""
