"""The ping through a worker group's own queue, pruning of the event log, and the purge of what is long over."""

from provisioning.events import services as events
from provisioning.jobs import registry, retention, worker_groups

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


@registry.periodic("jobs.purge", every=600)
def purge() -> None:
    """Remove what has been over for longer than it is kept."""
    retention.purge_by_the_clock()


KEPT = {
    "events.Event": "Deleted after NOVELLA_EVENT_RETENTION seconds.",
    "jobs.WorkerBeat": "Deleted when its worker group is found dead.",
    "jobs.Lease": "One row for each periodic job.",
    "jobs.JobRun": "Deleted with its message of the queue.",
}
