"""Queries of identity: tokens, accessible projects, and look-ups by id or name."""
