"""Types, their QoS and groups, and pools."""
