"""Quota sets, quota class sets and limits."""
