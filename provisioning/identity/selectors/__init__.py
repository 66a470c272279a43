"""Reading identity: what a token is worth now, who may enter what, and look-ups by id or name."""
