"""Proofs of users and programs: hashes, signatures, multi-factor rules and access rules."""
