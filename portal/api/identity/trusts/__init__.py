"""Trusts (OS-TRUST), by which a user lets another act with some of the own roles."""
