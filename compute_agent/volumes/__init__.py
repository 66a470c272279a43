"""Volumes on a host: pools, storage daemons, and the handlers of volume commands."""
