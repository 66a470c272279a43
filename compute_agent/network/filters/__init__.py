"""Filters of guests' traffic: anti-spoofing (``identity``) and security groups (``groups``).

There are two nftables tables in the agent's own namespace, rendered from the wanted state and replaced in one
transaction.  A frame is identified by the interface that it arrives on: the bridge's table first marks it with the
interface's number, and before delivery with that of the interface it leaves by.  Bridged packets reach the other table
through br_netfilter, with a connection tracking zone for each network, because networks' ranges overlap.
"""
