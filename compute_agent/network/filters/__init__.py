"""What guests may send and receive: who they are (``identity``), and what their security groups allow (``groups``).

Two nftables tables of the agent's own namespace, rendered from what is wanted and replaced in one transaction.  A frame
is known by the interface it comes from: the bridge's table marks it with the interface's number before anything else,
and with that of the interface it leaves by before it is delivered.  Bridged packets reach the other table through
br_netfilter, each network's in a connection tracking zone of its own, because ranges of networks overlap.
"""
