"""Plans of evacuations: what would become of the servers of a host."""

from __future__ import annotations

from unittest import mock

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from provisioning.common.context import RequestContext
from provisioning.compute.actions.power import Stop
from provisioning.compute.models import Instance
from provisioning.compute.plans import deaths
from provisioning.compute.plans.deaths import deaths_for
from provisioning.compute.plans.moves import Plan, plan_host
from provisioning.compute.services.server_groups import create_server_group
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from tests.support.clouds import ADMIN, Cloud, context

pytestmark = pytest.mark.django_db


@pytest.fixture
def servers(cloud: Cloud, alice: RequestContext) -> list[Instance]:
    """Three servers on the host ``one``."""
    cloud.add_host("one")
    return [cloud.running(alice, name=f"web-{number}") for number in range(3)]


def plan() -> Plan:
    return plan_host(Host.objects.get(name="one"), ["evacuate"], host_up=False)


def targets() -> list[str]:
    return [move.target for move in plan().moves]


def test_each_server_takes_its_room(cloud: Cloud, servers: list[Instance]) -> None:
    cloud.add_host("two", memory_mb=2048 + 512, disk_gb=100)
    result = plan()
    assert sorted(move.target for move in result.moves) == ["", "two", "two"]
    [stays] = result.staying
    assert "memory" in stays.reason
    assert (len(result.going), result.apart, result.more) == (2, [], False)
    assert all(move.new_disks for move in result.moves)
    assert Host.objects.get(name="two").memory_mb_allocated == 0


def test_without_another_host_all_stay(servers: list[Instance]) -> None:
    assert targets() == ["", "", ""]


def test_what_only_its_group_keeps_is_distinguished(
    cloud: Cloud, servers: list[Instance], alice: RequestContext
) -> None:
    group = create_server_group(alice, "apart", "anti-affinity")
    Instance.objects.filter(id__in=[server.id for server in servers[:2]]).update(server_group=group)
    cloud.add_host("two", memory_mb=65536, disk_gb=100)
    result = plan()
    assert [len(part) for part in (result.going, result.apart, result.staying)] == [2, 1, 0]
    assert result.apart[0].reason.startswith("Its server group does not allow it.")
    Instance.objects.update(server_group=None)  # on one host the group is broken, as the doctor would say


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"vm_state": "suspended"}, "It is suspended"),
        ({"task_state": "rebooting"}, "task in progress (rebooting)"),
        ({"launched_at": None, "vm_state": "error"}, "never been built"),
    ],
)
def test_what_its_state_keeps(cloud: Cloud, servers: list[Instance], columns: dict[str, object], reason: str) -> None:
    cloud.add_host("two", memory_mb=65536, disk_gb=100)
    Instance.objects.filter(id=servers[0].id).update(**columns)
    [stays] = plan().staying
    assert (stays.instance.id, reason in stays.reason) == (servers[0].id, True)
    Instance.objects.filter(id=servers[0].id).update(vm_state="active", task_state=None)  # as it was


def test_what_its_image_keeps(cloud: Cloud, servers: list[Instance]) -> None:
    cloud.add_host("two", memory_mb=65536, disk_gb=100)
    Image.objects.update(status="deactivated")
    assert {move.reason for move in plan().staying} == {"The server's own image can no longer be used."}


def test_an_answer_is_computed_again_only_after_a_change(
    cloud: Cloud, servers: list[Instance], django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    def going() -> list[int]:
        return [each.going for each in deaths_for(operator)]

    operator = context("operator", ADMIN)
    assert going() == [0]
    with mock.patch.object(deaths, "plan_hosts", side_effect=AssertionError), django_assert_max_num_queries(12):
        assert going() == [0]
    cloud.add_host("two", memory_mb=65536, disk_gb=100)
    assert going() == [3]
    Stop.begin(operator, servers[0].id)  # it has a task
    assert going() == [2]
    Image.objects.update(status="deactivated", updated_at=timezone.now())
    assert going() == [0]
    Host.objects.filter(name="two").update(enabled=False)
    with mock.patch.object(deaths, "plan_hosts", return_value={}), pytest.raises(KeyError):
        going()
    assert going() == [0]
