"""Measures how fast this machine launches servers, lists them and chooses hosts: bin/bench."""
