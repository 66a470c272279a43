"""Prepares a data folder on this machine and runs a cloud from it: the half of bin/up that is Python."""
