"""Regions, services and endpoints."""
