"""Ports and addresses: ports of servers that should have none, and servers with the wrong number of ports."""

import uuid
from collections.abc import Iterator

from django.db.models import Count, Q

from compute_agent.contract.commands import DetachInterfaceRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.common.database.prepared import Prepared
from provisioning.compute.actions.interfaces import send_detach
from provisioning.compute.host_link.release import keeps_ports
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.records.host_commands import unfinished
from provisioning.compute.states import TaskState, VmState
from provisioning.doctor.checks.allocations import PLACED, STILL_PLACED
from provisioning.doctor.finding import Finding, Repair, check, number
from provisioning.doctor.repairs import moment_of, named, of_instance
from provisioning.network import services as network
from provisioning.network.models import Port
from provisioning.network.records.owners import OF_THE_CLOUD
from provisioning.network.selectors import port_refs

NEEDED = ("id", "requested_networks", "version", "attempt", "task_state", "host_id")
"""Columns of a server that decide whether all its interfaces must exist."""
_ON_SHELF = (
    Q(vm_state=VmState.SHELVED_OFFLOADED)
    | Q(vm_state=VmState.ERROR, launched_at__isnull=False)
    | Q(task_state=TaskState.EVACUATING)
)
"""Servers that keep their ports but have no host."""


OF_SERVERS = Port.objects.exclude(OF_THE_CLOUD)
BARE = Prepared(lambda: OF_SERVERS.filter(fixed_ips=None, device_id__isnull=False).order_by("id"))
COUNTED = Prepared(
    lambda: OF_SERVERS.exclude(device_id=None).order_by("device_id").values_list("device_id").annotate(Count("id"))
)
"""The number of ports of each server, as (server id, count)."""
WITH_PORTS = Prepared(
    lambda: (
        Instance.objects.filter(PLACED | STILL_PLACED | _ON_SHELF)
        .exclude(task_state=TaskState.NETWORKING)
        .only(*NEEDED)
        .order_by("id")
    )
)
"""Servers that must have all their ports."""


@check("ports")
def ports() -> Iterator[Finding]:
    """Find ports of servers that do not exist, or that should no longer have ports."""
    holding = set(Allocation.objects.values_list("instance_id", flat=True))
    many = {device: count for device, count in COUNTED() if device is not None and device not in holding}
    known = Instance.objects.in_bulk(list(many))
    for device, count in many.items():
        instance = known.get(device)
        if not _owned(instance, holding=False):
            what = "which has no record" if instance is None else f"which is in state {instance.vm_state}"
            sentence = f"{_ports(count)} allocated to this server, {what}."
            evidence = (count, moment_of(instance) if instance else None)
            remedy = "Release the ports and their addresses."
            yield Finding("error", f"instance {device}", sentence, remedy, _release(device), evidence)


def _owned(instance: Instance | None, *, holding: bool) -> bool:
    """Return whether a server may have ports.

    A server may have ports if it is on a host, is building, is shelved, or waits for its host to confirm its deletion.
    ``holding``: the server has an allocation on a host.
    """
    if instance is None:
        return False
    shelved = VmState.SHELVED_OFFLOADED in {instance.vm_state, instance.previous_vm_state}
    there = instance.host_id is not None or instance.vm_state == VmState.BUILDING
    return holding or (instance.vm_state != VmState.DELETED and (there or shelved or _stays(instance)))


def _stays(instance: Instance) -> bool:
    return keeps_ports(instance) or instance.task_state == TaskState.DELETING


def _ports(many: int) -> str:
    return "1 port with its address is" if many == 1 else f"{many} ports with their addresses are"


def _release(device: uuid.UUID) -> Repair:
    def give_back(_: Instance | None = None) -> str | None:
        instance = Instance.objects.filter(id=device).first()
        if _owned(instance, holding=Allocation.objects.filter(instance_id=device).exists()):
            return None
        many = Port.objects.filter(device_id=device).count()
        network.release(device)
        return f"Released: {number(many, 'port')}." if many else None

    return of_instance(device, give_back) if Instance.objects.filter(id=device).exists() else give_back


@check("addresses")
def addresses() -> Iterator[Finding]:
    """Find ports without an address, and servers whose number of ports differs from their record."""
    for port in BARE():
        sentence = "It has no address: the guest gets no address on this interface."
        yield Finding("note", f"port {port.id}", sentence)
    many = dict(COUNTED())
    for row in WITH_PORTS():
        has, says = many.get(row.id, 0), len(row.requested_networks)
        if has != says:
            sentence = f"It has {number(has, 'port')}, but its record lists {number(says, 'interface')}."
            yield Finding("warning", named(row), sentence, evidence=(has, says, moment_of(row)))


@check("leaving_ports")
def leaving_ports() -> Iterator[Finding]:
    """Find interfaces that are to be detached from a guest although no host has a command to do so."""
    for port, instance in _leaving():
        sentence = f"It is to be detached from the server {instance.id}, but no host has a command to do so."
        remedy = "Send the host a detach command."
        yield Finding("warning", f"port {port.id}", sentence, remedy, _detach(port, instance), moment_of(instance))


def _leaving(port_id: uuid.UUID | None = None) -> Iterator[tuple[Port, Instance]]:
    """Yield ports that are to be detached from a server on a host, with the server.

    Omits ports of servers with a task, and ports for which a detach command is open.
    """
    ports = Port.objects.filter(leaving=True, device_id__isnull=False).order_by("id")
    for port in ports if port_id is None else ports.filter(id=port_id):
        instance = Instance.objects.filter(PLACED | STILL_PLACED, id__in=[port.device_id], task_state=None).first()
        if instance is not None and not _has_command(instance, port):
            yield port, instance


def _has_command(instance: Instance, port: Port) -> bool:
    bodies = unfinished(instance.id).values_list("body", flat=True)
    commands = (decode_command_body(body) for body in bodies)
    return any(isinstance(each, DetachInterfaceRequest) and each.port.id == str(port.id) for each in commands)


def _detach(seen: Port, of: Instance) -> Repair:
    def work(instance: Instance) -> str | None:
        if next(_leaving(seen.id), None) is None:
            return None
        for port in port_refs(instance.id, leaving=True):
            if port.id == str(seen.id):
                send_detach(instance, port)
                return "A detach command was sent to its host."
        return None

    return of_instance(of.id, work)
