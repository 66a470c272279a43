"""IP addresses, subnet pools, address scopes and ports of the system."""
