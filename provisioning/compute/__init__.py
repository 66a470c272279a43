"""Instances, flavors, key pairs, hosts, allocations, actions and their events."""
