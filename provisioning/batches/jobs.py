"""The job that carries out a batch, and the periodic one that queues batches whose job was lost."""

from provisioning.batches import services
from provisioning.jobs.registry import job, periodic


@job(services.JOB, topic=services.TOPIC, on_give_up=services.give_up)
def run(batch_id: str) -> None:
    services.run(batch_id)


@periodic("batches.resume", every=30.0)
def resume() -> None:
    """Queue batches whose message was lost."""
    services.resume()
