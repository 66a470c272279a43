"""The job of drains."""

from provisioning.drains import execution, services
from provisioning.jobs.registry import job, periodic


@job(services.JOB, topic=services.TOPIC)
def run(drain_id: str) -> None:
    execution.run(drain_id)


@periodic("drains.continue", every=5.0)
def run_all() -> None:
    """Follow the moves of unfinished drains, and begin the next ones."""
    execution.run_all()
