"""Deleting from every state there is, with the host up, down, forced down, and back later: it completes, and in the end
nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute.actions.delete import delete
from provisioning.compute.host_link.release import leave_host
from provisioning.compute.launch import claim
from provisioning.compute.launch.builds import waiting_build
from provisioning.compute.launch.checks import MAX_COUNT
from provisioning.compute.launch.create import launch
from provisioning.compute.models import Allocation, Instance, InstanceAction
from provisioning.compute.services.hosts import change_host
from provisioning.compute.states import TRANSITIONS, TaskState, VmState
from provisioning.compute.upkeep import reaper
from provisioning.hosts.models import Host, HostCommand
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.services.limits import set_limit
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.ports import guest_addresses, guest_ports
from tests.support.scripted_agent import ScriptedAgent

Pair = tuple[VmState, TaskState | None]
_GO_ON = [move for move in TRANSITIONS if move.name not in {"delete", "deleted"} and not move.name.startswith("reset_")]
PAIRS: list[Pair] = sorted({state for move in _GO_ON for state in (move.source, move.target)}, key=str)
"""Every state that a server comes into before it is deleted; ``deleting`` is reached from each of them."""
UNPLACED = {(VmState.BUILDING, TaskState.SCHEDULING)}
OF_SERVERS = ("instances", "cores", "ram", "ports", "fixed_ips")
"""What servers take of a project's quota."""
CLAIMED = {(VmState.BUILDING, TaskState.NETWORKING), (VmState.BUILDING, TaskState.BLOCK_DEVICE_MAPPING)}


def everywhere(cloud: Cloud, caller: RequestContext, pairs: list[Pair]) -> dict[Pair, Instance]:
    """Servers of one host, one in each of the states."""
    unplaced, claimed = (sorted(some & {*pairs}, key=str) for some in (UNPLACED, CLAIMED))
    for resource in OF_SERVERS:
        set_limit(caller.project_id, resource, -1)
    cloud.network.subnets.update(cidr="10.20.0.0/22", allocation_pools=[{"start": "10.20.0.10", "end": "10.20.3.9"}])
    agent = cloud.add_host("kelvin", vcpus=1000, memory_mb=1 << 20, disk_gb=10_000)
    made = [pair for pair in pairs if pair not in {*unplaced, *claimed}]
    servers = dict(zip(made, _launch(cloud, len(made)), strict=True))
    drain()
    servers |= dict(zip(unplaced + claimed, _launch(cloud, len(unplaced + claimed)), strict=True))
    OrmQ.objects.all().delete()
    orders = {order.subject_id: order for order in agent.take()}
    for pair, server in servers.items():
        if pair in claimed:
            build = waiting_build(server.id, 1)
            assert build is not None
            assert claim.find_place(build) is not None
        if pair not in {*unplaced, *claimed, (VmState.BUILDING, TaskState.SPAWNING)}:
            agent.carry_out(orders[str(server.id)])
        _put(agent, server, pair)
    return servers


def _launch(cloud: Cloud, count: int) -> list[Instance]:
    """Launch so many servers, in requests of the size that one may have."""
    sizes = [MAX_COUNT] * (count // MAX_COUNT) + [count % MAX_COUNT] * bool(count % MAX_COUNT)
    return [
        server for size in sizes for server in launch(context("alice"), cloud.request(min_count=size, max_count=size))
    ]


def _put(agent: ScriptedAgent, server: Instance, pair: Pair) -> None:
    """Set a server into the state, as its end on the way there would."""
    columns: dict[str, object] = {"vm_state": pair[0], "task_state": pair[1]}
    if pair[1] is not None:
        columns["task_deadline"] = timezone.now() + timedelta(minutes=5)
    offloaded = pair[0] == VmState.SHELVED_OFFLOADED and pair[1] != TaskState.SPAWNING
    if offloaded or pair[1] == TaskState.EVACUATING:
        agent.guests.pop(str(server.id))
        leave_host(server)
        columns["host"] = None
    Instance.objects.filter(id=server.id).update(**columns)


def up(cloud: Cloud) -> None:
    return


def down(cloud: Cloud) -> None:
    Host.objects.update(connected=False, last_seen_at=timezone.now() - timedelta(hours=1))


def forced_down(cloud: Cloud) -> None:
    """An operator says that the host is down; its agent's link still stands."""
    change_host(context("operator", ADMIN), cloud.agents["kelvin"].host.id, forced_down=True)


def gone_for_its_owner(server: Instance) -> None:
    assert state_of(server) == ("deleted", None)
    with pytest.raises(NotFoundError):
        delete(context("alice"), server.id, force=True)


def nothing_is_left(cloud: Cloud) -> None:
    assert cloud.agents["kelvin"].guests == {}
    assert not Allocation.objects.exists()
    assert not guest_ports().exists()
    assert not guest_addresses().exists()
    assert not Reservation.objects.filter(resource__in=OF_SERVERS).exists()
    assert not HostCommand.objects.filter(finished_at=None).exists()
    assert not InstanceAction.objects.filter(finished_at=None).exists()
    used = {row.resource: row.in_use + row.reserved for row in QuotaUsage.objects.filter(resource__in=OF_SERVERS)}
    assert set(used.values()) == {0}, used
    host = Host.objects.get()
    assert (host.vcpus_allocated, host.memory_mb_allocated, host.instances_allocated) == (0, 0, 0)


def once_each(pairs: list[Pair]) -> list[Pair]:
    """Return so few states that each vm_state and each task_state is among them."""
    seen, few = set[object](), list[Pair]()
    for pair in pairs:
        if not seen.issuperset(pair):
            few.append(pair)
            seen.update(pair)
    return few


THIRDS = {f"{part + 1}/3": PAIRS[part::3] for part in range(3)}
PARTS = {"each once": once_each(PAIRS)} | THIRDS
"""States that servers are in together; at landing the first, all pairs in the deep tier."""


@pytest.mark.parametrize("part", ["each once", *(pytest.param(part, marks=pytest.mark.deep) for part in THIRDS)])
@pytest.mark.parametrize(
    "host", [up, down, pytest.param(forced_down, marks=pytest.mark.deep)], ids=lambda host: host.__name__
)
@pytest.mark.slow
def test_from_every_state(db: None, alice: RequestContext, host: Callable[[Cloud], None], part: str) -> None:
    cloud = Cloud.make()
    servers = everywhere(cloud, alice, PARTS[part])
    before = {pair: state_of(server) for pair, server in servers.items()}
    assert before == {pair: (pair[0].value, pair[1].value if pair[1] else None) for pair in servers}
    host(cloud)
    for pair, server in servers.items():
        delete(context("alice"), server.id, force=True)
        if host is not up:
            gone_for_its_owner(server)
        elif state_of(server) != ("deleted", None):
            assert state_of(server) == (pair[0].value, "deleting")
            delete(context("alice"), server.id, force=True)  # again: nothing more happens
    assert InstanceAction.objects.filter(action="delete").count() == len(servers)
    if host is down:
        held = Allocation.objects.count()
        assert held == guest_ports().count() > 15, "what a host may still run stays accounted for"
        reaper.reap()
        assert Allocation.objects.count() == held
        cloud.agents["kelvin"].hello()
    cloud.run()
    for server in servers.values():
        gone_for_its_owner(server)
    nothing_is_left(cloud)


@pytest.mark.slow
def test_a_host_that_comes_back_without_its_orders_is_notified_by_its_guests(
    cloud: Cloud, alice: RequestContext
) -> None:
    """It was deleted in the host's absence, and the order was lost: the guest that the host shows is removed."""
    agent = cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    down(cloud)
    delete(context("alice"), server.id)
    HostCommand.objects.all().delete()
    agent.guests[str(server.id)] = (1, PowerState.RUNNING)
    agent.hello()
    cloud.run()
    nothing_is_left(cloud)


@pytest.mark.slow
def test_the_owner_waits_no_longer_than_the_host_counts_as_up(
    cloud: Cloud, alice: RequestContext, settings: Any
) -> None:
    """The host went silent before it confirmed: the delete ends in the round after HOST_DOWN_AFTER."""
    settings.HOST_DOWN_AFTER = 3600
    agent = cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    delete(context("alice"), server.id)
    silent = timezone.now() - timedelta(minutes=50)
    Host.objects.update(last_seen_at=silent)
    reaper.reap()
    assert state_of(server) == ("active", "deleting"), "an hour has not passed"
    Host.objects.update(last_seen_at=silent - timedelta(minutes=11))
    reaper.reap()
    gone_for_its_owner(server)
    agent.hello()
    cloud.run()
    nothing_is_left(cloud)
