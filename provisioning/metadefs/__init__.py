"""Metadata definitions: which properties images, flavors, volumes … may have, and what values they take."""
