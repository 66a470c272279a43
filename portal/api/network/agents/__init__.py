"""Agents, availability zones and service providers, derived from hosts."""
