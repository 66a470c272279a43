"""Policies that share records with other projects."""
