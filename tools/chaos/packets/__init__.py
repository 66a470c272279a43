"""Hosts of a chaos run with real networks: the delivery of their guests' packets is compared with the API's records."""
