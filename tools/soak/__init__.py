"""Lets a simulated cloud work for long and judges whether it grows."""
