"""Commands of identity."""
