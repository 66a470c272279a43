"""The ping through a worker group's own queue, and pruning of the event log."""

from provisioning.events import services as events
from provisioning.jobs import registry, worker_groups

PING_TOPIC = "ping"
PING = "jobs.ping"


@registry.job(PING, topic=PING_TOPIC)
def ping(group: str) -> None:
    """Show that messages of the group are taken and run."""
    worker_groups.answer_ping(group)


@registry.periodic("events.prune", every=60)
def prune_events() -> None:
    """Remove events that no page will ask for any more."""
    events.prune()
