"""What the tests of shelving look at."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.utils import timezone

from compute_agent.contract.messages import Command
from provisioning.compute.models import Allocation, Instance, InstanceAction
from provisioning.network.models import Port
from tests.support.ports import guest_addresses
from tests.support.scripted_agent import ScriptedAgent

OFFLOADED = ("shelved_offloaded", None)


def addresses(server: Instance) -> list[tuple[uuid.UUID, str, str]]:
    rows = guest_addresses().filter(port__device_id=server.id).select_related("port")
    return [(row.port.id, row.port.mac_address, row.address) for row in rows]


def action(server: Instance, name: str) -> InstanceAction:
    return InstanceAction.objects.filter(instance=server, action=name).latest("id")


def only(host: ScriptedAgent, kind: type) -> Command:
    (command,) = host.take()
    assert isinstance(command.body, kind)
    return command


def let_deadline_pass(server: Instance) -> None:
    Instance.objects.filter(id=server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))


def nothing_taken(server: Instance) -> None:
    """On the shelf, with its ports and without anything on a host."""
    row = Instance.objects.get(id=server.id)
    assert (row.vm_state, row.task_state, row.host_id, row.power_state) == (*OFFLOADED, None, 0)
    assert not Allocation.objects.filter(instance=server).exists()
    ports = Port.objects.filter(device_id=server.id)
    assert {(port.host, port.status) for port in ports} == {("", "DOWN")}
    assert (row.requested_host, row.excluded_hosts) == ("", [])
