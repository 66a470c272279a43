"""Whether and how actions of an instance begin."""
