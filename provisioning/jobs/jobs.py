"""Jobs of the queue itself: the ping of a worker group, pruning of the event log, and the purge of expired records."""

from provisioning.events import services as events
from provisioning.jobs import registry, retention
from provisioning.jobs.queue import worker_groups

PING_TOPIC = "ping"
PING = "jobs.ping"


@registry.job(PING, topic=PING_TOPIC)
def ping(group: str) -> None:
    """Record that a worker of the group takes and runs messages."""
    worker_groups.answer_ping(group)


@registry.periodic("events.prune", every=60)
def prune_events() -> None:
    """Delete events that no page can request any longer."""
    events.prune()


@registry.periodic("jobs.purge", every=600)
def purge() -> None:
    """Delete records older than their retention."""
    retention.purge_expired()


UNPURGED = {
    "events.Event": "Deleted after NOVELLA_EVENT_RETENTION seconds.",
    "jobs.WorkerBeat": "Deleted when its worker group is found dead.",
    "jobs.Lease": "One row for each periodic job.",
    "jobs.JobRun": "Deleted with its message of the queue.",
}
