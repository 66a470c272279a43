"""Services, pools, capabilities, hosts and clusters."""
