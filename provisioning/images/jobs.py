"""What is done for images by the queue and by the clock."""

import uuid

from provisioning.images.services import imports, recovery, tasks
from provisioning.jobs.absence import absence
from provisioning.jobs.registry import job, periodic

INTERVAL = 60.0


def give_up_import(reason: str, task_id: str) -> None:
    """End an import that failed for no reason of its user's."""
    imports.fail(uuid.UUID(task_id), "The import failed for an internal reason. Tell your operator the task's id.")


@job(imports.JOB, topic=imports.TOPIC, on_give_up=give_up_import, long=True, leaves_room=True)
def run_import(task_id: str) -> None:
    imports.run(uuid.UUID(task_id))


@periodic("images.recover_interrupted_uploads", every=INTERVAL)
def recover_interrupted_uploads() -> int:
    """Make images ``queued`` again whose upload died with its process."""
    return recovery.recover_interrupted_uploads()


@periodic("images.clean_up", every=INTERVAL)
def clean_up() -> None:
    """Clear the staging area, find lost imports, and forget tasks of long ago."""
    gap = absence("images.clean_up")
    if gap is not None:
        recovery.forgive(gap)
    recovery.clear_staging()
    recovery.sweep()
    recovery.find_lost_imports()
    tasks.expire()
