"""Jobs of the queue and the live log themselves."""

from __future__ import annotations

from provisioning.events import services as events
from provisioning.rpc import groups, hosts, registry

PING_TOPIC = "ping"
PING = "rpc.ping"


@registry.job(PING, topic=PING_TOPIC)
def ping(group: str) -> None:
    """Show that messages of the group are taken and run."""
    groups.answer_ping(group)


@registry.periodic("events.prune", every=60)
def prune_events() -> None:
    """Remove events that no page will ask for any more."""
    events.prune()


@registry.periodic("rpc.prune", every=60)
def prune_hosts() -> None:
    """Remove questions nobody waits for and commands finished long ago."""
    hosts.prune()
