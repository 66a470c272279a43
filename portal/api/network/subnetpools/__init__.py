"""Subnet pools."""
