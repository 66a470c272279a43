"""How many addresses networks have."""
