"""The events of one server, to investigate a failure of a chaos run."""

from __future__ import annotations

from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent, InstanceFault
from provisioning.compute.records.host_commands import about_servers
from tools.chaos.checks.journals import Seen

SHOWN = (
    "name", "vm_state", "task_state", "task_deadline", "power_state", "attempt", "host_id", "excluded_hosts",
    "previous_vm_state", "snapshot_image_id", "created_at", "updated_at", "deleted_at",
)  # fmt: skip


def story(seen: Seen, instance: str) -> list[str]:
    """Return lines about a server: its row, actions, steps, faults, commands and domain."""
    lines: list[str] = []
    for row in Instance.objects.filter(id=instance).values(*SHOWN):
        lines.append(" ".join(f"{name}={value}" for name, value in row.items()))
    for action in InstanceAction.objects.filter(instance__id=instance).order_by("id"):
        lines.append(
            f"action {action.action} {action.request_id} {action.started_at} - {action.finished_at}"
            f" {action.message or ''}"
        )
        lines += [
            f"    {step.name} of attempt {step.attempt} {step.started_at} - {step.finished_at} {step.result}"
            f" {step.host} {step.message}"
            for step in InstanceActionEvent.objects.filter(action=action).order_by("id")
        ]
    faults = InstanceFault.objects.filter(instance__id=instance).order_by("id")
    lines += [f"fault {row.created_at}: {row.message}" for row in faults]
    lines += [
        f"command {row.kind} {row.id} of attempt {row.generation} to {row.host_id}: given {row.created_at},"
        f" taken {row.acknowledged_at}, ended {row.finished_at}"
        for row in about_servers().filter(subject_id=instance).order_by("created_at")
    ]
    if instance in seen.domains:
        host, domain = seen.domains[instance]
        lines.append(f"domain on {host}: {' '.join(f'{name}={value}' for name, value in sorted(domain.items()))}")
    return lines
