"""The service namespace of each network: DHCP, DNS and metadata."""
