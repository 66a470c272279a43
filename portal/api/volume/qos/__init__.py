"""QoS specs."""
