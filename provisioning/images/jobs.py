"""Periodic jobs for images; ``services.imports`` has the job of imports."""

from provisioning.images.models import Image, ImageTask
from provisioning.images.services import recovery, tasks
from provisioning.jobs.periodic import reaping
from provisioning.jobs.registry import periodic

INTERVAL = 60.0


@periodic("images.clean_up", every=INTERVAL)
def clean_up() -> None:
    """Give up overdue uploads and imports, remove abandoned files, and delete expired tasks."""
    reaping.reap("images.clean_up", (Image, ImageTask))
    recovery.sweep()
    tasks.expire()
