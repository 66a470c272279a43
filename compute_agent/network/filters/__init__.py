"""Filters of guests' traffic: anti-spoofing (``identity``) and security groups (``groups``).

There are two nftables tables in the agent's own namespace, rendered from the desired state and replaced in one
transaction. The bridge's table first marks a frame with the number of the interface on which it arrives. Before
delivery it replaces the mark by the number of the interface through which the frame leaves. Bridged packets reach the
other table through br_netfilter. Each network has its own connection tracking zone, because networks' ranges overlap.
"""
