"""Records that are older than the hosts: no newer guest is lost, and every one is followed or named."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.messages import Leftover
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.actions.power import Start, reboot
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.models import Allocation, Instance, NewerGuest
from provisioning.compute.upkeep import adoption, reaper
from provisioning.doctor.examinations.examination import findings
from provisioning.hosts import restored
from provisioning.hosts.models import Host, HostCommand, Restore
from provisioning.images.models import Image
from provisioning.network.models import Port
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.copies import Copy
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = pytest.mark.slow

NAMED = pytest.mark.doctor_finds("newer_guests")
ACTIVE, OFFLOADED, STOPPED = ("active", None), ("shelved_offloaded", None), ("stopped", None)


@pytest.fixture(autouse=True)
def _nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)


@pytest.fixture
@standing
def a(cloud: Cloud) -> ScriptedAgent:
    return cloud.add_host("a")


@pytest.fixture
@standing
def server(cloud: Cloud, a: ScriptedAgent, alice: RequestContext) -> Instance:
    return cloud.running(alice)


def off(cloud: Cloud, row: Instance) -> None:
    Shelve.begin(context("alice"), row.id)
    cloud.run()
    assert state_of(row) == OFFLOADED


def back(cloud: Cloud, row: Instance) -> None:
    unshelve(context("alice"), row.id)
    cloud.run()
    assert state_of(row) == ACTIVE


def to_b(cloud: Cloud, row: Instance) -> ScriptedAgent:
    """Bring a server to a second host by its shelf."""
    b = cloud.add_host("b")
    Host.objects.filter(name="a").update(enabled=False)
    off(cloud, row)
    back(cloud, row)
    assert list(b.guests) == [str(row.id)]
    return b


def told_to_destroy(*agents: ScriptedAgent) -> int:
    return sum(isinstance(command.body, DestroyRequest) for agent in agents for command in agent.take())


def newer() -> list[tuple[str, str, int, int]]:
    rows = NewerGuest.objects.select_related("host").order_by("id")
    return [(row.host.name, row.outcome, row.attempt, row.record_attempt) for row in rows]


# ----- the same host --------------------------------------------------------------------------------------------------


@pytest.mark.both_databases
@NAMED
@pytest.mark.parametrize("notified", [False, True], ids=["without the command", "after_restore"])
def test_a_server_that_left_its_host_and_came_back_is_commanded_as_before(
    cloud: Cloud, server: Instance, a: ScriptedAgent, notified: bool
) -> None:
    copy = Copy()
    off(cloud, server)
    back(cloud, server)
    copy.put_back()
    if notified:
        restored.after_restore()
    a.hello()
    assert newer() == [("a", "followed", 3, cloud.fresh(server).attempt if notified else 1)]
    a.power(server.id, PowerState.SHUTDOWN)
    assert state_of(server) == STOPPED
    Start.begin(context("alice"), server.id)
    cloud.run()
    assert state_of(server) == ACTIVE
    reboot(context("alice"), server.id, hard=True)
    cloud.run()
    assert a.sent[-1].kind == "finished"
    assert state_of(server) == ACTIVE
    delete(context("alice"), server.id)
    cloud.run()
    assert state_of(server) == ("deleted", None)
    assert not a.guests
    assert not Allocation.objects.exists()


@pytest.fixture
def followed(cloud: Cloud, server: Instance, a: ScriptedAgent) -> ScriptedAgent:
    """The record of the server follows its guest on this host, after a restore."""
    copy = Copy()
    off(cloud, server)
    back(cloud, server)
    copy.put_back()
    restored.after_restore()
    a.hello()
    assert newer()[0][:2] == ("a", "followed")
    return a


@NAMED
@pytest.mark.parametrize("again", [False, True], ids=["", "after another restore"])
def test_a_followed_guest_is_old_when_its_server_has_left_the_host(
    cloud: Cloud, server: Instance, followed: ScriptedAgent, *, again: bool
) -> None:
    if again:
        Copy().put_back()
        restored.after_restore()
        followed.hello()
    b = cloud.add_host("b")
    Host.objects.filter(name="a").update(forced_down=True, connected=False)
    Evacuate.begin(context("operator", ADMIN), server.id)
    for _ in range(5):
        drain()
        b.work()
    assert (state_of(server), cloud.fresh(server).host_name) == (ACTIVE, "b")
    Host.objects.filter(name="a").update(forced_down=False)
    followed.hello()
    cloud.run()
    assert not followed.guests
    assert str(server.id) in b.guests
    assert newer()[0][1] == "followed"


@NAMED
def test_the_power_of_a_followed_guest_is_recorded(cloud: Cloud, server: Instance, followed: ScriptedAgent) -> None:
    attempt, _ = followed.guests[str(server.id)]
    followed.guests[str(server.id)] = (attempt, PowerState.SHUTDOWN)
    followed.hello()
    assert state_of(server) == STOPPED


@NAMED
def test_a_followed_guest_of_a_deleted_server_is_removed(
    cloud: Cloud, server: Instance, followed: ScriptedAgent
) -> None:
    guest = dict(followed.guests)
    delete(context("alice"), server.id)
    cloud.run()
    followed.guests = guest
    followed.hello()
    cloud.run()
    assert not followed.guests


@NAMED
def test_a_record_that_says_something_is_under_way_follows_its_newer_guest(
    cloud: Cloud, server: Instance, a: ScriptedAgent
) -> None:
    Shelve.begin(context("alice"), server.id)
    copy = Copy()
    cloud.run()
    back(cloud, server)
    copy.put_back()
    a.hello()
    assert told_to_destroy(a) == 0
    cloud.run()
    assert state_of(server) == ACTIVE
    assert str(server.id) in a.guests
    assert not HostCommand.objects.filter(finished_at=None).exists()


@NAMED
@pytest.mark.parametrize(
    "detail", [{}, {"generation": "7"}, {"generation": "x" * 30}], ids=["older agent", "says", "lies"]
)
@pytest.mark.parametrize("action", ["reboot", "delete"])
def test_what_a_host_calls_superseded_is_sent_again_above_its_number(
    cloud: Cloud, server: Instance, a: ScriptedAgent, action: str, detail: dict[str, str]
) -> None:
    if action == "reboot":
        reboot(context("alice"), server.id, hard=True)
    else:
        delete(context("alice"), server.id)
    (command,) = a.take()
    a.report(command, "failed", error_code="superseded", message="Newer.", detail=detail)
    (again,) = a.take()
    assert again.body == command.body
    assert again.generation > command.generation
    assert again.generation == cloud.fresh(server).attempt == (8 if "7" in detail.values() else again.generation)
    a.carry_out(again)
    assert state_of(server) == (ACTIVE if action == "reboot" else ("deleted", None))
    assert bool(a.guests) is (action == "reboot")
    assert newer()[0][:2] == ("a", "followed")


@NAMED
def test_a_host_that_calls_everything_superseded_is_asked_twice_and_the_error_is_shown(
    cloud: Cloud, server: Instance, a: ScriptedAgent
) -> None:
    reboot(context("alice"), server.id, hard=True)
    for _ in range(2):
        (command,) = a.take()
        a.report(command, "failed", error_code="superseded", message="Newer.")
    assert not a.take()
    assert state_of(server) == ACTIVE
    assert server.faults.count() == 1


@NAMED
def test_a_build_goes_to_a_host_that_has_seen_a_higher_number(cloud: Cloud, server: Instance, a: ScriptedAgent) -> None:
    off(cloud, server)
    copy = Copy()
    back(cloud, server)
    off(cloud, server)
    copy.put_back()
    Image.objects.filter(status="deleted").update(status="active")
    a.hello()
    back(cloud, server)
    assert str(server.id) in a.guests
    assert Allocation.objects.get().attempt == cloud.fresh(server).attempt


# ----- another host ---------------------------------------------------------------------------------------------------


@pytest.mark.both_databases
@NAMED
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_server_that_moved_since_the_copy_is_followed_after_the_command(
    cloud: Cloud, server: Instance, first: str
) -> None:
    b = cloud.add_host("b")
    copy = Copy()
    Host.objects.filter(name="a").update(enabled=False)
    off(cloud, server)
    back(cloud, server)
    copy.put_back()
    restored.after_restore()
    for agent in sorted(cloud.agents.values(), key=lambda agent: agent.host.name != first):
        agent.hello()
    assert told_to_destroy(*cloud.agents.values()) == 0
    fresh = cloud.fresh(server)
    assert (state_of(server), fresh.host_id) == (ACTIVE, b.host.id)
    assert Allocation.objects.get().host_id == b.host.id
    assert {port.host for port in Port.objects.filter(device_id=server.id)} == {"b"}
    b.measured()
    reboot(context("alice"), server.id, hard=True)
    cloud.run()
    assert (state_of(server), list(b.guests)) == (ACTIVE, [str(server.id)])


@NAMED
def test_a_server_that_moved_is_named_and_left_alone_until_an_operator_decides(
    cloud: Cloud, server: Instance, operator: RequestContext
) -> None:
    b = cloud.add_host("b")
    copy = Copy()
    Host.objects.filter(name="a").update(enabled=False)
    off(cloud, server)
    back(cloud, server)
    copy.put_back()
    for _ in range(2):
        for agent in cloud.agents.values():
            agent.hello()
            agent.measured()
    reaper.reap()
    assert told_to_destroy(*cloud.agents.values()) == 0
    assert newer() == [("b", "open", 3, 1)]
    (row,) = NewerGuest.objects.all()
    with pytest.raises(ForbiddenError):
        adoption.adopt(context("alice"), row)
    with pytest.raises(ConflictError):
        adoption.acknowledge(operator, row)
    adoption.adopt(operator, row)
    cloud.run()
    assert (state_of(server), cloud.fresh(server).host_id) == (ACTIVE, b.host.id)
    assert str(server.id) in b.guests
    assert newer()[0][:2] == ("b", "followed")
    with pytest.raises(ConflictError):
        adoption.discard(operator, row)


@pytest.mark.both_databases
@NAMED
@pytest.mark.parametrize("notified", [False, True], ids=["without the command", "after_restore"])
def test_the_last_moments_are_lost_a_guest_wins_over_the_shelf(
    cloud: Cloud, server: Instance, a: ScriptedAgent, operator: RequestContext, notified: bool
) -> None:
    off(cloud, server)
    copy = Copy()
    back(cloud, server)
    copy.put_back()
    if notified:
        restored.after_restore()
    a.hello()
    assert told_to_destroy(a) == 0
    assert [row[:2] for row in newer()] == [("a", "open")]
    assert Image.objects.filter(status="active", properties__image_type="snapshot").exists()
    adoption.adopt(operator, NewerGuest.objects.get())
    fresh = cloud.fresh(server)
    assert (state_of(server), fresh.host_id, fresh.snapshot_image_id) == (ACTIVE, a.host.id, None)
    assert Allocation.objects.get().host_id == a.host.id
    assert not Image.objects.filter(status="active", properties__image_type="snapshot").exists()


@NAMED
def test_no_number_is_given_out_again_after_the_command(cloud: Cloud, server: Instance) -> None:
    b = cloud.add_host("b")
    copy = Copy()
    Host.objects.filter(name="a").update(enabled=False)
    off(cloud, server)
    back(cloud, server)
    copy.put_back()
    restored.after_restore()
    Host.objects.filter(name="b").update(enabled=False)
    a = cloud.agents.pop("a")
    cloud.agents = {"a": a}
    a.guests[str(server.id)] = (1, PowerState.RUNNING)
    a.fences.clear()
    a.hello()
    off(cloud, server)
    back(cloud, server)
    b.hello()
    assert told_to_destroy(b) == 0
    assert newer()[-1][:2] == ("b", "open")


def test_a_guest_of_an_older_attempt_is_still_removed(cloud: Cloud, server: Instance) -> None:
    stale = cloud.fresh(server).attempt
    b = to_b(cloud, server)
    a = cloud.agents["a"]
    a.guests[str(server.id)] = (stale, PowerState.RUNNING)
    a.hello()
    assert told_to_destroy(a) == 1
    assert state_of(server) == ACTIVE
    cloud.run()
    assert str(server.id) in b.guests


@NAMED
def test_a_deleted_record_leaves_a_newer_guest_alone_until_it_is_discarded(
    cloud: Cloud, server: Instance, a: ScriptedAgent, operator: RequestContext
) -> None:
    delete(context("alice"), server.id)
    cloud.run()
    a.guests[str(server.id)] = (9, PowerState.RUNNING)
    a.hello()
    assert told_to_destroy(a) == 0
    (row,) = NewerGuest.objects.all()
    with pytest.raises(ConflictError):
        adoption.adopt(operator, row)
    assert [each.severity for each in findings(["newer_guests"])] == ["error"]
    adoption.discard(operator, row)
    a.fences[str(server.id)] = 9
    cloud.run()
    assert not a.guests
    NewerGuest.objects.update(acknowledged_at=None)


def test_deleting_a_server_removes_its_newer_guests_too(cloud: Cloud, server: Instance, a: ScriptedAgent) -> None:
    b = cloud.add_host("b")
    b.guests[str(server.id)] = (4, PowerState.RUNNING)
    b.fences[str(server.id)] = 4
    b.hello()
    delete(context("alice"), server.id)
    cloud.run()
    assert (a.guests, b.guests) == ({}, {})
    assert state_of(server) == ("deleted", None)


@NAMED
def test_a_newer_guest_that_goes_by_itself_is_reported_as_gone(cloud: Cloud, server: Instance) -> None:
    b = cloud.add_host("b")
    b.guests[str(server.id)] = (4, PowerState.RUNNING)
    b.hello()
    b.guests.clear()
    b.hello()
    assert newer() == [("b", "gone", 4, 1)]


def test_a_host_cannot_claim_a_server_by_a_number(cloud: Cloud, server: Instance) -> None:
    off(cloud, server)
    b = cloud.add_host("b")
    b.guests[str(server.id)] = (2**40, PowerState.RUNNING)
    b.hello()
    assert (state_of(server), newer()) == (OFFLOADED, [])


@NAMED
@pytest.mark.parametrize("notified", ["never", "long ago", "before the server was used"])
def test_a_host_that_claims_a_server_does_not_get_it_by_itself(cloud: Cloud, server: Instance, notified: str) -> None:
    if notified == "before the server was used":
        restored.after_restore()
        cloud.agents["a"].hello()
    off(cloud, server)
    if notified == "long ago":
        restored.after_restore()
        Restore.objects.update(at=server.created_at - timedelta(days=2))
    b = cloud.add_host("b")
    b.guests[str(server.id)] = (5, PowerState.RUNNING)
    for _ in range(2):
        b.hello()
        b.measured()
    assert (state_of(server), cloud.fresh(server).host_id) == (OFFLOADED, None)


# ----- what is gone, and what was being built -------------------------------------------------------------------------


@NAMED
def test_a_server_that_was_deleted_since_is_found_stopped_and_starts(
    cloud: Cloud, server: Instance, a: ScriptedAgent
) -> None:
    copy = Copy()
    delete(context("alice"), server.id)
    cloud.run()
    copy.put_back()
    a.hello()
    assert state_of(server) == STOPPED
    Start.begin(context("alice"), server.id)
    cloud.run()
    assert (state_of(server), list(a.guests)) == (ACTIVE, [str(server.id)])


def test_a_server_that_was_deleted_since_can_be_deleted(cloud: Cloud, server: Instance, a: ScriptedAgent) -> None:
    copy = Copy()
    delete(context("alice"), server.id)
    cloud.run()
    copy.put_back()
    a.hello()
    delete(context("alice"), server.id)
    cloud.run()
    assert state_of(server) == ("deleted", None)
    assert not Allocation.objects.exists()


def spawning(cloud: Cloud, a: ScriptedAgent, caller: RequestContext) -> tuple[Instance, Any]:
    row = cloud.launch(caller)
    drain()
    (command,) = a.take()
    assert state_of(row) == ("building", "spawning")
    return row, command


def test_a_build_that_ended_in_the_lost_moments_is_not_built_twice(
    cloud: Cloud, a: ScriptedAgent, alice: RequestContext
) -> None:
    row, command = spawning(cloud, a, alice)
    copy = Copy()
    a.carry_out(command)
    copy.put_back()
    a.hello()
    Instance.objects.update(task_deadline=row.created_at)
    HostCommand.objects.update(begun_at=row.created_at)
    reaper.reap()
    assert state_of(row) == ACTIVE
    assert told_to_destroy(a) == 0


@NAMED
@pytest.mark.parametrize(("power", "expected"), [(PowerState.RUNNING, ACTIVE), (PowerState.SHUTDOWN, STOPPED)])
def test_a_build_in_a_restored_copy_becomes_what_its_host_has(
    cloud: Cloud, a: ScriptedAgent, alice: RequestContext, power: PowerState, expected: tuple[str, str | None]
) -> None:
    row, command = spawning(cloud, a, alice)
    copy = Copy()
    a.carry_out(command)
    copy.put_back()
    restored.after_restore()
    a.guests[str(row.id)] = (command.generation, power)
    a.hello()
    assert state_of(row) == expected
    assert told_to_destroy(a) == 0


@NAMED
def test_a_server_that_was_still_looking_for_a_host_is_named_where_it_was_built(
    cloud: Cloud, a: ScriptedAgent, alice: RequestContext
) -> None:
    row = cloud.launch(alice)
    copy = Copy()
    cloud.run()
    copy.put_back()
    restored.after_restore()
    a.hello()
    drain()
    assert told_to_destroy(a) == 0
    assert state_of(row) == ("error", None)
    assert newer()[0][:2] == ("a", "open")


@pytest.mark.both_databases
def test_no_command_of_the_copy_is_sent_after_the_command(cloud: Cloud, server: Instance, a: ScriptedAgent) -> None:
    reboot(context("alice"), server.id, hard=True)
    copy = Copy()
    cloud.run()
    copy.put_back()
    restored.after_restore()
    a.hello()
    assert not a.take()
    reaper.reap()
    assert state_of(server) == ACTIVE
    a.hello()
    reboot(context("alice"), server.id, hard=True)
    cloud.run()
    assert state_of(server) == ACTIVE


def test_it_may_run_twice(cloud: Cloud, server: Instance, a: ScriptedAgent) -> None:
    for _ in range(2):
        restored.after_restore()
    a.hello()
    assert told_to_destroy(a) == 0
    a.power(server.id, PowerState.SHUTDOWN)
    assert state_of(server) == STOPPED
    delete(context("alice"), server.id)
    cloud.run()
    assert state_of(server) == ("deleted", None)


# ----- disks ----------------------------------------------------------------------------------------------------------


@pytest.mark.doctor_finds("leftovers")
@pytest.mark.parametrize("generation", [9, None], ids=["newer", "not said"])
def test_a_disk_of_a_server_that_the_host_knows_better_stays(
    cloud: Cloud, server: Instance, a: ScriptedAgent, generation: int | None
) -> None:
    if generation is None:
        restored.after_restore()
    off(cloud, server)
    before = HostCommand.objects.filter(kind="destroy_request").count()
    HostCommand.objects.update(created_at=server.created_at)
    a.left = [Leftover(kind="folder", name=str(server.id), subject_id=str(server.id), generation=generation)]
    for _ in range(3):
        a.measured()
    assert HostCommand.objects.filter(kind="destroy_request").count() == before
