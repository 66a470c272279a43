"""Limits, quota sets and quota class sets."""
