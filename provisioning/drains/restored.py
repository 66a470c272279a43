"""Drains after their records were restored from a backup."""

from provisioning.drains.models import Drain


def pause_drains() -> list[str]:
    """Pause the drains that the backup shows as running: no server is moved before hosts and records agree again."""
    paused = Drain.objects.filter(state=Drain.State.RUNNING, finished_at=None).update(state=Drain.State.PAUSED)
    return [f"Drains: {paused} paused. Resume them when the doctor finds nothing."] if paused else []
