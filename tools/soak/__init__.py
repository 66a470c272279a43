"""Runs a simulated cloud for a long time and judges whether it grows."""
