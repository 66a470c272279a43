"""Credentials, application credentials, their access rules, and EC2 keys."""
