"""Volumes in a pool of a Ceph cluster."""
