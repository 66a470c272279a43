"""Agents, zones and service providers: what Neutron says of hosts."""
