"""Bridges, DHCP, taps and filters of this host."""
