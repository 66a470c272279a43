"""Queued and periodic jobs for images."""

import uuid

from provisioning.images.services import imports, recovery, tasks
from provisioning.jobs.absence import absence
from provisioning.jobs.registry import job, periodic

INTERVAL = 60.0


def give_up_import(reason: str, task_id: str) -> None:
    """Fail an import whose job was given up because of an internal error."""
    imports.fail(uuid.UUID(task_id), "The import failed for an internal reason. Report the task's id to your operator.")


@job(imports.JOB, topic=imports.TOPIC, on_give_up=give_up_import, long=True, leaves_room=True)
def run_import(task_id: str) -> None:
    imports.run(uuid.UUID(task_id))


@periodic("images.recover_interrupted_uploads", every=INTERVAL)
def recover_interrupted_uploads() -> int:
    """Set images back to ``queued`` if the process of their upload has died."""
    return recovery.recover_interrupted_uploads()


@periodic("images.clean_up", every=INTERVAL)
def clean_up() -> None:
    """Clear the staging area, requeue lost imports, and delete expired tasks."""
    gap = absence("images.clean_up")
    if gap is not None:
        recovery.forgive(gap)
    recovery.clear_staging()
    recovery.sweep()
    recovery.find_lost_imports()
    tasks.expire()
