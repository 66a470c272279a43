"""Nova's notifications of servers and aggregates.

A state transition sends the notifications of its row in ``table``; other code calls ``notify``.
"""

from provisioning.compute.notifications.emit import Note, changed, moved, notify, of_aggregate, usage

__all__ = ["Note", "changed", "moved", "notify", "of_aggregate", "usage"]
