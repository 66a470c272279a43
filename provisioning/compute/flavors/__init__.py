"""Sizes of servers and the hardware that flavors and images require."""
