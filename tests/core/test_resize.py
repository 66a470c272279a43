"""Resizing along the line: sizes, room and quota from the request to the confirmation, whatever happens between."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from compute_agent.contract.commands import ConfirmResizeRequest, ResizeRequest, RevertResizeRequest
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError, OverQuotaError, UnavailableError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.lock import lock
from provisioning.compute.actions.power import Pause, Stop
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.resize import ConfirmResize, resize
from provisioning.compute.actions.revert_resize import RevertResize
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.models import Allocation, Flavor, Instance, InstanceAction, InstanceFault, Migration
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from provisioning.compute.upkeep.confirm_resizes import confirm_resizes
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host, HostCommand
from provisioning.quotas import selectors as quota_selectors
from provisioning.quotas.services.limits import set_limit
from tests.core.test_parallel import in_threads, unexpected
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = pytest.mark.django_db

SMALL = {"cores": 1, "ram": 1024}
BIG = {"cores": 4, "ram": 4096}


@pytest.fixture
@standing
def running(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    return instance


def held(alice: RequestContext) -> dict[str, int]:
    assert alice.project_id is not None
    usage = quota_selectors.usage_of(alice.project_id)
    return {name: usage[name] for name in SMALL}


def room(instance: Instance) -> tuple[int, int, int]:
    row = Allocation.objects.get(instance=instance)
    return row.vcpus, row.memory_mb, row.disk_gb


def migration_of(instance: Instance) -> Migration:
    return Migration.objects.get(instance=instance)


def resized(cloud: Cloud, instance: Instance, flavor: str = "2") -> None:
    resize(context("alice"), instance.id, flavor)
    cloud.run()
    assert state_of(instance) == ("resized", None)


def refused(instance: Instance, flavor: str) -> str:
    """Why this size is refused at once."""
    with pytest.raises(InvalidInputError) as caught:
        resize(context("alice"), instance.id, flavor)
    assert caught.value.field == "flavorRef"
    return caught.value.message


@pytest.mark.slow
def test_a_resize_holds_both_sizes_until_it_is_confirmed(
    cloud: Cloud, running: Instance, alice: RequestContext
) -> None:
    resize(context("alice"), running.id, "2")
    assert state_of(running) == ("active", "resize_migrating")
    assert cloud.fresh(running).flavor["name"] == "m1.small"
    assert (held(alice), room(running)) == (BIG, (4, 4096, 20))
    assert migration_of(running).status == "migrating"
    (command,) = cloud.agents["kelvin"].take(acknowledge=False)
    assert isinstance(command.body, ResizeRequest)
    assert (command.body.instance.flavor.memory_mb, command.body.old_flavor.memory_mb) == (4096, 1024)
    assert command.body.start
    invariants.check()
    cloud.run()
    row = cloud.fresh(running)
    assert (row.vm_state, row.flavor["name"], row.old_flavor["name"]) == ("resized", "m1.big", "m1.small")
    assert row.resized_at is not None
    assert (held(alice), migration_of(running).status) == (BIG, "finished")
    invariants.check()
    ConfirmResize.begin(context("alice"), running.id)
    assert migration_of(running).status == "confirming"
    cloud.run()
    row = cloud.fresh(running)
    assert (row.vm_state, row.flavor["name"], row.old_flavor, row.resized_at) == ("active", "m1.big", None, None)
    assert (held(alice), room(running), migration_of(running).status) == (BIG, (4, 4096, 20), "confirmed")
    done = InstanceAction.objects.filter(instance=running).order_by("id").values_list("action", "message")
    assert list(done) == [("create", None), ("resize", None), ("confirmResize", None)]
    assert not InstanceAction.objects.filter(finished_at=None).exists()


def test_a_revert_gives_back_what_the_larger_size_held(cloud: Cloud, running: Instance, alice: RequestContext) -> None:
    resized(cloud, running)
    RevertResize.begin(context("alice"), running.id)
    assert state_of(running) == ("resized", "resize_reverting")
    (command,) = cloud.agents["kelvin"].take(acknowledge=False)
    assert isinstance(command.body, RevertResizeRequest)
    assert (command.body.instance.flavor.memory_mb, command.body.start) == (1024, True)
    assert (held(alice), migration_of(running).status) == (BIG, "reverting")
    cloud.run()
    row = cloud.fresh(running)
    assert (row.vm_state, row.flavor["name"], row.old_flavor) == ("active", "m1.small", None)
    assert (held(alice), room(running), migration_of(running).status) == (SMALL, (1, 1024, 2), "reverted")


def test_a_smaller_size_is_given_back_at_the_confirmation(
    cloud: Cloud, running: Instance, alice: RequestContext
) -> None:
    create_flavor(context("operator", ADMIN), FlavorRequest("m1.flat", 1, 512, 2, flavorid="3"))
    resized(cloud, running, "3")
    assert (held(alice), room(running)) == (SMALL, (1, 1024, 2))
    invariants.check()
    ConfirmResize.begin(context("alice"), running.id)
    cloud.run()
    assert (held(alice), room(running)) == ({"cores": 1, "ram": 512}, (1, 512, 2))


@pytest.mark.parametrize("back", [True, False], ids=["reverted", "confirmed"])
def test_a_stopped_server_stays_stopped(cloud: Cloud, running: Instance, *, back: bool) -> None:
    Stop.begin(context("alice"), running.id)
    cloud.run()
    resize(context("alice"), running.id, "2")
    (command,) = cloud.agents["kelvin"].take(acknowledge=False)
    assert isinstance(command.body, ResizeRequest)
    assert not command.body.start
    cloud.run()
    assert state_of(running) == ("resized", None)
    (RevertResize.begin if back else ConfirmResize.begin)(context("alice"), running.id)
    cloud.run()
    assert state_of(running) == ("stopped", None)


@pytest.mark.slow
def test_a_host_without_room_leaves_the_server_as_it_was_and_says_why(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=4000)
    cloud.add_host("ohm", memory_mb=1)
    instance = cloud.launch(alice)
    cloud.run()
    resize(context("alice"), instance.id, "2")
    row = cloud.fresh(instance)
    assert (row.vm_state, row.task_state, row.old_flavor) == ("active", None, None)
    assert (held(alice), room(instance), migration_of(instance).status) == (SMALL, (1, 1024, 2), "error")
    action = InstanceAction.objects.get(instance=instance, action="resize")
    assert action.finished_at is not None
    message = action.message or ""
    assert message.startswith("No valid host was found. The host of the server")
    assert "has not got 4 vCPUs, 4096 MiB of memory and 20 GiB of disk" in message
    assert InstanceFault.objects.get(instance=instance).message == message
    assert "kelvin" not in message
    assert cloud.agents["kelvin"].take() == []


def test_a_disabled_host_takes_nothing_more(cloud: Cloud, running: Instance) -> None:
    Host.objects.update(enabled=False)
    resize(context("alice"), running.id, "2")
    assert state_of(running) == ("active", None)
    assert "1 of 1 host is disabled" in (InstanceAction.objects.get(instance=running, action="resize").message or "")


def test_a_full_quota_refuses_the_difference_alone(cloud: Cloud, running: Instance, alice: RequestContext) -> None:
    set_limit(alice.project_id, "ram", 4095)
    with pytest.raises(OverQuotaError, match="Requested 3072, but already used 1024 of 4095 ram"):
        resize(context("alice"), running.id, "2")
    assert (state_of(running), held(alice), room(running)) == (("active", None), SMALL, (1, 1024, 2))
    assert not Migration.objects.exists()
    set_limit(alice.project_id, "ram", 4096)
    resized(cloud, running)


def test_sizes_that_are_refused(cloud: Cloud, running: Instance, alice: RequestContext) -> None:
    operator = context("operator", ADMIN)
    for number, sizes, more in (
        ("zero", (2, 2048, 0), {}),
        ("flat", (2, 2048, 1), {}),
        ("tight", (2, 63, 5), {}),
        ("hidden", (2, 2048, 5), {"is_public": False}),
        ("retired", (2, 2048, 5), {}),
    ):
        create_flavor(operator, FlavorRequest(number, *sizes, flavorid=number, **more))
    Flavor.objects.filter(flavorid="retired").update(disabled=True)
    assert refused(running, "1") == "When resizing, instances must change flavor!"
    assert refused(running, "zero").endswith("Resize to zero disk flavor is not allowed.")
    assert "cannot shrink to 1 GiB" in refused(running, "flat")
    assert refused(running, "tight") == "The image needs 64 MiB of memory; flavor tight has 63 MiB."
    for unknown in ("hidden", "retired", "never"):
        assert refused(running, unknown) == f"Flavor {unknown} could not be found."
    assert held(alice) == SMALL


@pytest.mark.slow
def test_a_disk_of_the_images_size_may_become_a_disk_of_its_own(cloud: Cloud, alice: RequestContext) -> None:
    operator = context("operator", ADMIN)
    create_flavor(operator, FlavorRequest("zero", 1, 512, 0, flavorid="zero"))
    create_flavor(operator, FlavorRequest("zero2", 1, 768, 0, flavorid="zero2"))
    cloud.add_host("kelvin")
    instance = cloud.launch(context("alice", ADMIN), flavor_ref="zero")
    cloud.run()
    for flavor, disk in (("zero2", 1), ("1", 2)):
        resized(cloud, instance, flavor)
        ConfirmResize.begin(context("alice"), instance.id)
        cloud.run()
        assert room(instance)[2] == disk


def test_an_ephemeral_disk_does_not_shrink(cloud: Cloud, alice: RequestContext) -> None:
    operator = context("operator", ADMIN)
    create_flavor(operator, FlavorRequest("rich", 1, 1024, 2, flavorid="rich", ephemeral_gb=3, swap_mb=100))
    cloud.add_host("kelvin")
    instance = cloud.launch(alice, flavor_ref="rich")
    cloud.run()
    assert "ephemeral disk has 3 GiB" in refused(instance, "2")


def test_a_server_whose_image_is_gone_is_resized(cloud: Cloud, running: Instance) -> None:
    cloud.image.delete()
    resized(cloud, running)


def test_only_what_is_at_rest_is_resized(cloud: Cloud, running: Instance, charlie: RequestContext) -> None:
    with pytest.raises(NotFoundError):
        resize(charlie, running.id, "2")
    Pause.begin(context("alice"), running.id)
    with pytest.raises(InstanceBusyError, match="task_state pausing"):
        resize(context("alice"), running.id, "2")
    cloud.run()
    with pytest.raises(InstanceBusyError, match=r"Cannot 'resize' instance .* vm_state paused"):
        resize(context("alice"), running.id, "2")
    for work in (ConfirmResize.begin, RevertResize.begin):
        with pytest.raises(InstanceBusyError, match="vm_state paused"):
            work(context("alice"), running.id)


def test_a_locked_server_is_left_alone(cloud: Cloud, running: Instance) -> None:
    lock(context("alice"), running.id)
    with pytest.raises(InstanceLockedError):
        resize(context("alice"), running.id, "2")


def test_not_when_the_host_is_down(cloud: Cloud, running: Instance, alice: RequestContext) -> None:
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    with pytest.raises(UnavailableError):
        resize(context("alice"), running.id, "2")
    assert (state_of(running), held(alice)) == (("active", None), SMALL)


# ----- what hosts say -------------------------------------------------------------------------------------------------


def failing(cloud: Cloud, code: str = "host_failed") -> None:
    """Let the host fail its one order."""
    agent = cloud.agents["kelvin"]
    (command,) = agent.take()
    agent.report(command, "failed", error_code=code, message="The disk is broken.")


@pytest.mark.parametrize("stopped", [False, True])
def test_a_resize_that_failed_leaves_the_server_as_it_was(
    cloud: Cloud, running: Instance, alice: RequestContext, *, stopped: bool
) -> None:
    if stopped:
        Stop.begin(context("alice"), running.id)
        cloud.run()
    resize(context("alice"), running.id, "2")
    failing(cloud)
    row = cloud.fresh(running)
    assert (row.vm_state, row.task_state) == ("stopped" if stopped else "active", None)
    assert (row.flavor["name"], row.old_flavor, row.previous_vm_state) == ("m1.small", None, "")
    assert (held(alice), room(running), migration_of(running).status) == (SMALL, (1, 1024, 2), "error")
    assert InstanceAction.objects.get(instance=running, action="resize").message == "The disk is broken."
    assert InstanceFault.objects.get(instance=running).message == "The disk is broken."


@pytest.mark.slow
def test_a_guest_that_was_not_brought_back_is_in_error_and_keeps_its_place(
    cloud: Cloud, running: Instance, alice: RequestContext
) -> None:
    resize(context("alice"), running.id, "2")
    failing(cloud, "not_restored")
    assert state_of(running) == ("error", None)
    assert (held(alice), room(running), migration_of(running).status) == (BIG, (4, 4096, 20), "error")
    reap()
    assert cloud.agents["kelvin"].take() == []  # its disks are there: nobody destroys it
    cloud.agents["kelvin"].hello()
    assert cloud.agents["kelvin"].take() == []
    invariants.check()
    delete(context("alice"), running.id)
    cloud.run()
    invariants.check_empty()


def test_a_silent_host_leaves_the_server_in_error(cloud: Cloud, running: Instance, alice: RequestContext) -> None:
    resize(context("alice"), running.id, "2")
    (command,) = cloud.agents["kelvin"].take()
    Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    assert (state_of(running), held(alice)) == (("error", None), BIG)
    cloud.agents["kelvin"].carry_out(command)
    assert state_of(running) == ("error", None)


def test_a_confirmation_that_failed_can_be_repeated(cloud: Cloud, running: Instance, alice: RequestContext) -> None:
    resized(cloud, running)
    ConfirmResize.begin(context("alice"), running.id)
    failing(cloud)
    assert (state_of(running), held(alice)) == (("resized", None), BIG)
    assert migration_of(running).status == "finished"
    ConfirmResize.begin(context("alice"), running.id)
    cloud.run()
    assert state_of(running) == ("active", None)


def test_a_revert_that_failed_is_an_error(cloud: Cloud, running: Instance, alice: RequestContext) -> None:
    resized(cloud, running)
    RevertResize.begin(context("alice"), running.id)
    failing(cloud)
    assert (state_of(running), held(alice)) == (("error", None), BIG)
    assert migration_of(running).status == "error"


def test_a_revert_without_a_command_is_not_the_return_of_a_move(
    cloud: Cloud, running: Instance, alice: RequestContext
) -> None:
    """The command was lost, for example by a restore of the database, while the host is up."""
    resized(cloud, running)
    RevertResize.begin(context("alice"), running.id)
    HostCommand.objects.all().delete()
    Instance.objects.filter(id=running.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    assert cloud.agents["kelvin"].take() == []
    assert (state_of(running), held(alice)) == (("error", None), BIG)


def test_a_server_that_went_off_meanwhile_is_confirmed_as_stopped(cloud: Cloud, running: Instance) -> None:
    resized(cloud, running)
    cloud.agents["kelvin"].power(running.id, PowerState.SHUTDOWN)
    assert state_of(running) == ("resized", None)
    ConfirmResize.begin(context("alice"), running.id)
    agent = cloud.agents["kelvin"]
    (command,) = agent.take()
    assert isinstance(command.body, ConfirmResizeRequest)
    agent.report(command, "finished", power_state=PowerState.SHUTDOWN)
    assert state_of(running) == ("stopped", None)


def test_the_clock_confirms_what_nobody_did(cloud: Cloud, running: Instance, settings: Settings) -> None:
    resized(cloud, running)
    Instance.objects.update(resized_at=timezone.now() - timedelta(seconds=61))
    assert confirm_resizes() == 0  # never, without a setting
    settings.RESIZE_CONFIRM_WINDOW = 120
    assert confirm_resizes() == 0
    settings.RESIZE_CONFIRM_WINDOW = 60
    Instance.objects.update(locked=True)
    assert (confirm_resizes(), confirm_resizes()) == (1, 0)
    cloud.run()
    assert state_of(running) == ("active", None)


# ----- deletes and resets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["ordered", "taken", "resized", "confirming", "reverting"])
def test_a_delete_at_any_moment_gives_everything_back(
    cloud: Cloud, running: Instance, settings: Settings, moment: str
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600 if moment == "resized" else 0  # such a server cannot come back
    resize(context("alice"), running.id, "2")
    agent = cloud.agents["kelvin"]
    order = None
    if moment == "taken":
        (order,) = agent.take()
    if moment in {"resized", "confirming", "reverting"}:
        cloud.run()
    if moment in {"confirming", "reverting"}:
        end = ConfirmResize.begin if moment == "confirming" else RevertResize.begin
        end(context("alice"), running.id)
    delete(context("alice"), running.id)
    if order is not None:
        agent.carry_out(order)
    cloud.run()
    assert state_of(running) == ("deleted", None)
    assert agent.guests == {}
    invariants.check_empty()
    done = moment in {"resized", "confirming"}
    assert migration_of(running).status == ("confirmed" if done else "error")


@pytest.mark.slow
@pytest.mark.parametrize("resized_before", [False, True])
def test_after_a_reset_another_resize_settles_the_first(
    cloud: Cloud, running: Instance, alice: RequestContext, *, resized_before: bool
) -> None:
    create_flavor(context("operator", ADMIN), FlavorRequest("m1.huge", 6, 6000, 30, flavorid="3"))
    resize(context("alice"), running.id, "2")
    if resized_before:
        cloud.run()
    ResetState.begin(context("operator", ADMIN), running.id, "active")
    assert (state_of(running), held(alice)) == (("active", None), BIG)
    invariants.check()
    resize(context("alice"), running.id, "3")
    bodies = [type(command.body) for command in cloud.agents["kelvin"].take(acknowledge=False)]
    assert bodies == [ConfirmResizeRequest, ResizeRequest]
    invariants.check()
    cloud.run()
    RevertResize.begin(context("alice"), running.id)
    cloud.run()
    size = BIG if resized_before else SMALL
    assert (state_of(running), held(alice)) == (("active", None), size)
    assert Counter(Migration.objects.values_list("status", flat=True)) == (
        {"confirmed": 1, "reverted": 1} if resized_before else {"error": 1, "reverted": 1}
    )


# ----- many at once ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
class TestManyAtOnce:
    """Twenty servers want more at the same moment."""

    def servers(self, cloud: Cloud, alice: RequestContext, **capacity: int) -> list[Instance]:
        for resource, limit in (("instances", 20), ("cores", 1000), ("ram", 1_000_000)):
            set_limit(alice.project_id, resource, limit)
        cloud.add_host("kelvin", **capacity)
        instances = [cloud.launch(context("alice")) for _ in range(20)]
        cloud.run()
        return instances

    @pytest.mark.slow
    def test_a_host_with_room_for_five_takes_five(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        each = 4096 - 1024
        instances = self.servers(
            shared_cloud, alice, vcpus=100, memory_mb=20 * 1024 + 5 * each + each - 1, disk_gb=1000
        )
        assert not unexpected(in_threads(20, lambda index: resize(context("alice"), instances[index].id, "2")))
        states = Counter(state_of(instance) for instance in instances)
        assert states == {("active", "resize_migrating"): 5, ("active", None): 15}
        assert Host.objects.get().memory_mb_allocated == 20 * 1024 + 5 * each
        invariants.check()
        shared_cloud.run()
        assert Counter(Migration.objects.values_list("status", flat=True)) == {"finished": 5, "error": 15}
        invariants.check()

    @pytest.mark.deep
    def test_a_quota_for_three_gives_three(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        instances = self.servers(shared_cloud, alice, vcpus=100, memory_mb=100 * 1024, disk_gb=1000)
        set_limit(alice.project_id, "cores", 20 + 3 * 3 + 2)
        results = in_threads(20, lambda index: resize(context("alice"), instances[index].id, "2"))
        assert not unexpected(results)
        assert sum(isinstance(item, OverQuotaError) for item in results) == 17
        assert held(alice)["cores"] == 20 + 3 * 3
        invariants.check()
        shared_cloud.run()
        back = [instance for instance in instances if state_of(instance) == ("resized", None)]
        assert len(back) == 3
        in_threads(3, lambda index: RevertResize.begin(context("alice"), back[index].id))
        shared_cloud.run()
        assert held(alice) == {"cores": 20, "ram": 20 * 1024}

    @pytest.mark.slow
    def test_one_server_is_resized_once(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        agent: ScriptedAgent = shared_cloud.add_host("kelvin")
        instance = shared_cloud.launch(alice)
        shared_cloud.run()
        results = in_threads(8, lambda _: resize(context("alice"), instance.id, "2"))
        assert sum(isinstance(item, InstanceBusyError) for item in results) == 7
        assert not unexpected(results)
        assert len(agent.take(acknowledge=False)) == 1
        shared_cloud.run()
        done = threading.Barrier(2)

        def end(index: int) -> Instance:
            done.wait()
            return (ConfirmResize.begin, RevertResize.begin)[index](context("alice"), instance.id)

        results = in_threads(2, end)
        assert sum(isinstance(item, InstanceBusyError) for item in results) == 1
        shared_cloud.run()
        assert state_of(instance) == ("active", None)
