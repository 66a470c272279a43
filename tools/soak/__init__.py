"""Runs a simulated cloud for a long time and checks whether its resource usage grows."""
