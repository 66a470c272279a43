"""Overdue commands that no task of an instance waits for."""

from datetime import timedelta

from django.utils import timezone

from compute_agent.contract.messages import SERVER, decode_command_body
from provisioning.compute.actions.registry import awaiting
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.host_link.outcome import silent_since
from provisioning.compute.models import Instance
from provisioning.compute.records import host_commands
from provisioning.compute.state_machine import state
from provisioning.hosts import commands, rejected
from provisioning.hosts.models import HostCommand


def overdue(most: int) -> list[Instance]:
    """Return at most ``most`` instances with an overdue command that no task waits for."""
    ids = list(host_commands.beside_overdue().order_by("deadline").values_list("subject_id", flat=True)[:most])
    return list(Instance.objects.filter(id__in=ids).order_by("id"))


def end(seen: Instance) -> None:
    """End an instance's overdue commands that no task waits for, inside the caller's transaction.

    The deadline is extended for commands queued on a host that is up, and for those that only the host can end
    (``TasklessAction.ends_by_report``). Commands of older attempts end without effect.
    """
    state.lock([seen.id])
    instance = Instance.objects.select_related("host").get(id=seen.id)
    if rejected.awaited(SERVER, instance.id, instance.attempt):
        return
    for command in host_commands.beside_overdue().filter(subject_id=instance.id).order_by("created_at"):
        until = commands.waits_there(command, instance.host) if instance.host_id == command.host_id else None
        if until is not None:
            HostCommand.objects.filter(pk=command.pk, finished_at=None).update(deadline=until)
            continue
        body = decode_command_body(command.body)
        current = instance.attempt == command.generation and instance.host_id == command.host_id
        action = awaiting(instance, body) if current else None
        if isinstance(action, TasklessAction) and action.ends_by_report:
            later = timezone.now() + timedelta(seconds=command.timeout or 0)
            HostCommand.objects.filter(pk=command.pk, finished_at=None).update(deadline=later)
            continue
        commands.finish(command.host_id, command.id)
        if action is not None:
            action.end(instance, body, silent_since(command.created_at))
