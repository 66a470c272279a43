"""Half-way states of moves: resources, ports and connections of volumes on a host that a server does not use."""

import uuid
from collections.abc import Iterator

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from provisioning.common.values.ids import NOBODY
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.allocations import second_of
from provisioning.compute.models import Allocation, BlockDevice, Instance, MoveAllocation
from provisioning.compute.moves.hosts import leave_second
from provisioning.compute.records.host_commands import destroys_awaited
from provisioning.compute.records.migration_records import OPEN
from provisioning.compute.states import TaskState
from provisioning.doctor.checks.allocations import PATIENCE, PLACED
from provisioning.doctor.finding import Finding, Repair, check
from provisioning.doctor.repairs import alone, moment_of, named, of_instance
from provisioning.hosts.selectors import is_alive
from provisioning.network import services as network
from provisioning.network.models import Port
from provisioning.volumes.models import Attachment
from provisioning.volumes.records import holds
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.services.connections.second_hosts import drop
from provisioning.volumes.states import AttachStatus


def _left() -> QuerySet[MoveAllocation]:
    """Return the second allocations of ended moves whose host has no command to remove the server."""
    awaited = destroys_awaited().filter(subject_id=OuterRef("instance_id"), host_id=OuterRef("host_id"))
    at_rest = Q(instance__task_state=None, instance__updated_at__lt=timezone.now() - PATIENCE)
    rows = MoveAllocation.objects.select_related("instance", "host", "migration").filter(at_rest, ~Exists(awaited))
    return rows.exclude(migration__status__in=OPEN).order_by("id")


@check("second_hosts")
def second_hosts() -> Iterator[Finding]:
    """Find servers that hold resources on a second host after the end of their move."""
    for row in _left():
        sentence = (
            f"Its move has ended ({row.migration.status}), but it still has resources on host {row.host.name}, which is"
            " not asked to remove it."
        )
        evidence = (row.pk, row.host_id, moment_of(row.instance))
        yield Finding("error", named(row.instance), sentence, "Ask the host.", _leave(row), evidence)


def _leave(move_allocation: MoveAllocation) -> Repair:
    def work(instance: Instance) -> str | None:
        row = second_of(instance.id)
        if row is None or row.pk != move_allocation.pk or not _left().filter(pk=move_allocation.pk).exists():
            return None
        leave_second(instance)
        if row.host_id == instance.host_id:
            return "The second allocation was released: the server is on this host."
        return f"A removal command was sent to host {row.host.name}."

    return of_instance(move_allocation.instance_id, work)


def _elsewhere(instance: Instance | None = None) -> QuerySet[Instance]:
    """Return servers without a task that have a port which is bound to another host."""
    bound = Port.objects.filter(device_id=OuterRef("pk")).exclude(host="").exclude(host=OuterRef("host__name"))
    rows = Instance.objects.select_related("host").filter(PLACED, Exists(bound), task_state=None, host__isnull=False)
    return rows.order_by("id") if instance is None else rows.filter(id=instance.id)


@check("bound_ports")
def bound_ports() -> Iterator[Finding]:
    """Find servers whose ports are bound to another host than theirs."""
    for row in _elsewhere():
        bound = Port.objects.filter(device_id=row.id).exclude(host__in=["", row.host_name])
        names = ", ".join(sorted(set(bound.values_list("host", flat=True))))
        sentence = f"It is on host {row.host_name}, but has ports that are bound to {names}."
        yield Finding("error", named(row), sentence, "Bind them to its host.", _bind(row), moment_of(row))


def _bind(seen: Instance) -> Repair:
    def work(instance: Instance) -> str | None:
        if moment_of(instance) != moment_of(seen) or not _elsewhere(instance).exists():
            return None
        network.bind_ports(instance.id, instance.host_name)
        return f"The ports are bound to host {instance.host_name}."

    return of_instance(seen.id, work)


def _twice(instance: Instance | None = None) -> QuerySet[Instance]:
    """Return servers that are not being migrated and have a port which is bound to a second host."""
    bound = Port.objects.filter(device_id=OuterRef("pk")).exclude(second_host="")
    rows = Instance.objects.filter(Exists(bound)).exclude(task_state=TaskState.MIGRATING)
    return rows.order_by("id") if instance is None else rows.filter(id=instance.id)


@check("second_bindings")
def second_bindings() -> Iterator[Finding]:
    """Find ports that are bound to a second host although their server is not being migrated."""
    for row in _twice():
        sentence = "It is not being migrated, but has ports that are bound to a second host."
        yield Finding("error", named(row), sentence, "End the second binding.", _unbind(row), moment_of(row))


def _unbind(seen: Instance) -> Repair:
    def work(instance: Instance) -> str | None:
        if not _twice(instance).exists():
            return None
        network.bind_second(instance.id, "")
        return "The ports are bound to the server's host only."

    return of_instance(seen.id, work)


def _second(key: uuid.UUID | None = None) -> QuerySet[Attachment]:
    """Return attachments with a second host whose server is not being migrated."""
    moving = Instance.objects.filter(id=OuterRef("instance_id"), task_state=TaskState.MIGRATING)
    rows = Attachment.objects.select_related("second_host").filter(~Exists(moving), second_host__isnull=False)
    return rows.order_by("id") if key is None else rows.filter(id=key)


@check("second_connections")
def second_connections() -> Iterator[Finding]:
    """Find volumes that are exported to a second host although their server is not being migrated."""
    for row in _second():
        name = row.second_host.name if row.second_host else "?"
        sentence = f"It is also exported to host {name}, but its server {row.instance_id} is not being migrated."
        evidence = (row.pk, row.second_host_id)
        yield Finding("error", f"volume {row.volume_id}", sentence, "End that export.", _end_second(row), evidence)


def _end_second(attachment: Attachment) -> Repair:
    def work() -> str | None:
        if not _second(attachment.id).filter(second_host_id=attachment.second_host_id).exists():
            return None
        drop([attachment.id])
        return "The export was ended."

    return alone(work)


def _misplaced() -> QuerySet[Attachment]:
    """Return attachments of servers without a task whose volume is exported to another host than the server's, or could
    not be exported to the server's host although the guest has its disk.
    """
    server = Instance.objects.filter(PLACED, id=OuterRef("instance_id"), task_state=None, host__isnull=False)
    disk = BlockDevice.objects.filter(attachment_id=OuterRef("pk"), plugged=True, leaving=False)
    elsewhere = Exists(server.exclude(host=OuterRef("host")))
    refused = Q(status=AttachStatus.ERROR_ATTACHING) & Exists(server.filter(host=OuterRef("host"))) & Exists(disk)
    rows = Attachment.objects.filter(elsewhere | refused, host__isnull=False)
    return rows.select_related("host", "volume").order_by("id")


@check("connections")
def connections() -> Iterator[Finding]:
    """Find volumes that are exported to a host which does not have their server, or not exported although a guest needs
    them.
    """
    for row in _misplaced():
        name = row.host.name if row.host else "?"
        sentence = f"It is exported to host {name}, but its server {row.instance_id} is on another host."
        remedy = "Export it to the server's host instead."
        if row.status == AttachStatus.ERROR_ATTACHING and _is_at_server(row):
            sentence = f"It could not be exported to host {name}, where its server {row.instance_id} needs it."
            remedy = "Export it to the server's host again."
        evidence, obstacle = (row.pk, row.host_id, row.status), _keeps_export(row)
        if obstacle:
            yield Finding("error", f"volume {row.volume_id}", f"{sentence} {obstacle}", evidence=evidence)
        else:
            yield Finding("error", f"volume {row.volume_id}", sentence, remedy, _export_there(row), evidence)


def _is_at_server(row: Attachment) -> bool:
    return Instance.objects.filter(id=row.instance_id or NOBODY, host=row.host).exists()


def _keeps_export(row: Attachment) -> str:
    """Return the reason if the other host may still use the export, or if the server's host cannot use it; empty
    otherwise.
    """
    now, server = timezone.now(), Instance.objects.select_related("host").get(id=row.instance_id or NOBODY)
    here = {"instance": server.id, "host": row.host}
    if row.host is None or server.host is None or not is_alive(server.host, now):
        return "The server's host is down: the export is changed when it is back."
    there = row.host_id == server.host_id
    if not (row.host.forced_down or is_alive(row.host, now)):
        return "That host is down and may still use it: force it down if it is powered off or isolated."
    if newer_guests.open_of(server.id):
        return "An operator has to decide about a newer guest of the server first."
    removal = destroys_awaited().filter(subject_id=server.id, host_id=row.host.id)
    held = Allocation.objects.filter(**here).exists() or MoveAllocation.objects.filter(**here).exists()
    if not (there or row.host.forced_down) and (held or removal.exists()):
        return "That host has not confirmed yet that it has removed the server."
    return holds.reason(row.volume)


def _export_there(attachment: Attachment) -> Repair:
    def work(instance: Instance) -> str | None:
        row = _misplaced().filter(pk=attachment.pk, host=attachment.host).first()
        if row is None or instance.host is None or _keeps_export(row):
            return None
        attachments.connect(row, instance.host)
        return f"It is exported to host {instance.host.name}, and the guest's disk is updated."

    return of_instance(attachment.instance_id or NOBODY, work)
