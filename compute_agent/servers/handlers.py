"""The handlers of every command for a server beside building and destroying."""

from __future__ import annotations

from compute_agent.contract.commands import CommandBody
from compute_agent.servers import interfaces, power, rebuild, registry, rescue, resize, snapshot
from compute_agent.servers.registry import CommandHandler

FAMILIES = (power, rebuild, rescue, snapshot, resize, interfaces)
"""The modules whose functions register themselves when they are imported."""


def handler_for(body: CommandBody) -> CommandHandler | None:
    """Return how the command is carried out; None for building and destroying."""
    return registry.HANDLERS.get(type(body))
