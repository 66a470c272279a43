"""The host's network: bridges, DHCP, taps, filters and routers."""
