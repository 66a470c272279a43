"""Repairs of checks. Each runs in a transaction and checks its finding again before it changes anything."""

import uuid
from collections.abc import Callable

from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.compute.models import Instance
from provisioning.compute.state_machine import state
from provisioning.doctor.finding import Repair


def of_instance(instance_id: uuid.UUID, work: Callable[[Instance], str | None]) -> Repair:
    """Return a repair that locks the instance while it checks and repairs."""

    @when_broken_off
    def repair() -> str | None:
        with transaction.atomic():
            state.lock([instance_id])
            instance = Instance.objects.select_related("host").filter(id=instance_id).first()
            return work(instance) if instance is not None else None

    return repair


def alone(work: Callable[[], str | None]) -> Repair:
    """Return a repair that runs ``work`` in one transaction; ``work`` locks the rows that it changes."""

    @when_broken_off
    def repair() -> str | None:
        with transaction.atomic():
            return work()

    return repair


def named(instance: Instance) -> str:
    """Return the subject of a finding about an instance."""
    return f"instance {instance.id}"


def moment_of(instance: Instance) -> tuple[object, ...]:
    """Return values of which at least one changes with every change of the instance's state."""
    return instance.version, instance.attempt, instance.task_state, instance.host_id
