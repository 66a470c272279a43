"""Metadata for guests at 169.254.169.254 and fe80::a9fe:a9fe, served from the host's data without queries to the
portal.
"""
