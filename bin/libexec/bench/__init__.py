"""Measures how fast this machine launches, lists and decides: bin/bench."""
