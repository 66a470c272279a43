"""Nova's notifications of servers and aggregates: which there are, what they say, and when they are sent.

A transition of an instance sends the ones of its row in ``table``; what moves no state calls ``notify``.
"""

from provisioning.compute.notifications.emit import Note, changed, moved, notify, of_aggregate, usage

__all__ = ["Note", "changed", "moved", "notify", "of_aggregate", "usage"]
