"""Authentication: the proofs of a user, and the tokens that they get."""
