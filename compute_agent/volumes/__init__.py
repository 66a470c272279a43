"""Volumes on a host: pools, storage daemons, and the commands about them."""
