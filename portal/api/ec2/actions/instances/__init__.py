"""Instances: launch, describe, power and attributes."""
