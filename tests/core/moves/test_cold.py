"""Cold moves along the line: where the guest, its resources and its volumes are, whatever happens between."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from django.utils import timezone

from compute_agent.contract.commands import (
    DestroyRequest,
    ReceiveGuestRequest,
    ReturnGuestRequest,
    SendGuestRequest,
)
from compute_agent.contract.messages import Command
from compute_agent.contract.moves import ORIGIN, ROOT_POOL_TRAIT, GuestOrigin, root_pool_trait
from compute_agent.contract.power import PowerState
from compute_agent.contract.volume import ConnectVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.migrate import migrate
from provisioning.compute.actions.power import Stop
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.resize import ConfirmResize, resize
from provisioning.compute.actions.revert_resize import RevertResize
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceFault, Migration, MoveAllocation
from provisioning.compute.moves.live import unfit_targets
from provisioning.compute.moves.obstacles import cold_obstacles
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host, HostCertificate
from provisioning.network.models import Port
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.state_machine import state as volume_states
from tests.core.moves.test_hosts import NOTHING, SMALL, taken
from tests.support.clouds import Cloud, next_request, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db

POOL = "00000000-0000-4000-8000-00000000ceff"


@pytest.fixture(autouse=True)
def addresses(cloud: Cloud, running: Instance) -> None:
    for number, agent in enumerate(cloud.agents.values(), 1):
        agent.host.host_ip = f"198.51.100.{number}"
        Host.objects.filter(id=agent.host.id).update(host_ip=agent.host.host_ip)


def home(cloud: Cloud, instance: Instance) -> str:
    return cloud.fresh(instance).host_name


def there(cloud: Cloud) -> dict[str, PowerState | int]:
    """The hosts that have a guest, with its power state."""
    return {name: power for name, agent in cloud.agents.items() for _, power in agent.guests.values()}


def command(agent: ScriptedAgent, body: type) -> Command:
    """The command that the host gets; it carries out others, of networks."""
    drain()
    [result, *others] = sorted(agent.take(), key=lambda each: not isinstance(each.body, body))
    assert isinstance(result.body, body)
    for each in others:
        agent.carry_out(each)
    return result


def migration_of(instance: Instance) -> tuple[str, str]:
    row = Migration.objects.get(instance=instance)
    return row.migration_type, row.status


def moved(cloud: Cloud, operator: RequestContext, instance: Instance) -> None:
    migrate(next_request(operator), instance.id)
    cloud.run()
    assert state_of(instance) == ("resized", None)


def as_before(cloud: Cloud, instance: Instance) -> None:
    """The server is where it was, and nothing is on the other host."""
    cloud.run()
    assert state_of(instance) == ("active", None)
    assert home(cloud, instance) == "h1"
    assert there(cloud) == {"h1": PowerState.RUNNING}
    assert (taken("h1"), taken("h2")) == (SMALL, NOTHING)
    assert not MoveAllocation.objects.exists()
    assert {port.host for port in Port.objects.filter(device_id=instance.id)} == {"h1"}
    fresh = cloud.fresh(instance)
    assert (fresh.old_flavor, fresh.flavor["name"]) == (None, "m1.small")


def failed(instance: Instance) -> str:
    assert migration_of(instance)[1] == "error"
    action = InstanceAction.objects.filter(instance=instance, action="migrate").get()
    assert action.finished_at is not None
    fault = InstanceFault.objects.filter(instance=instance).latest("id")
    assert action.message == fault.message
    return fault.message


# ----- the way there --------------------------------------------------------------------------------------------------


@pytest.mark.both_databases("sql")
def test_a_server_moves_with_its_disks_and_waits_for_its_confirmation(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    migrate(operator, running.id)
    assert state_of(running) == ("active", "resize_migrating")
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    sent = command(h1, SendGuestRequest)
    assert isinstance(sent.body, SendGuestRequest)
    assert sent.body.target == str(h2.host.id)
    h1.carry_out(sent)
    received = command(h2, ReceiveGuestRequest)
    assert state_of(running) == ("active", "resize_finish")
    assert isinstance(received.body, ReceiveGuestRequest)
    origin = received.body.origin
    assert (origin.address, origin.port, origin.tls_hostname) == (
        "198.51.100.1", 10_900, f"{h1.host.id}.hosts.novella.internal",
    ) or origin.tls_hostname.startswith(str(h1.host.id))  # fmt: skip
    assert origin.base == "sha512-ab"
    h2.carry_out(received)
    cloud.run()
    assert state_of(running) == ("resized", None)
    assert home(cloud, running) == "h2"
    assert there(cloud) == {"h1": PowerState.SHUTDOWN, "h2": PowerState.RUNNING}
    assert (taken("h1"), taken("h2")) == (SMALL, SMALL)
    assert migration_of(running) == ("migration", "finished")
    assert {port.host for port in Port.objects.filter(device_id=running.id)} == {"h2"}
    names = set(InstanceAction.objects.get(action="migrate").events.values_list("name", flat=True))
    assert {"api_migrate", "compute_send", "compute_receive"} <= names


def test_a_confirmed_move_leaves_the_old_host(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    moved(cloud, operator, running)
    ConfirmResize.begin(operator, running.id)
    assert state_of(running) == ("active", None)
    cloud.run()
    assert there(cloud) == {"h2": PowerState.RUNNING}
    assert (taken("h1"), taken("h2")) == (NOTHING, SMALL)
    assert migration_of(running) == ("migration", "confirmed")


def test_a_move_is_confirmed_while_the_old_host_is_down(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    moved(cloud, operator, running)
    Host.objects.filter(name="h1").update(last_seen_at=timezone.now() - timedelta(hours=1))
    ConfirmResize.begin(operator, running.id)
    assert state_of(running) == ("active", None)
    assert taken("h1") == SMALL, "until it confirms"
    with pytest.raises(ConflictError):
        migrate(operator, running.id)
    Host.objects.update(last_seen_at=timezone.now())
    cloud.run()
    assert taken("h1") == NOTHING


def test_a_reverted_move_returns_to_the_old_host(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    moved(cloud, operator, running)
    RevertResize.begin(operator, running.id)
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    drain()
    assert not [each for each in h1.take() if isinstance(each.body, ReturnGuestRequest)], "while the other has it"
    h2.carry_out(command(h2, DestroyRequest))
    assert state_of(running) == ("resized", "resize_reverting")
    as_before(cloud, running)
    assert migration_of(running) == ("migration", "reverted")


def test_a_stopped_server_stays_stopped(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    Stop.begin(operator, running.id)
    cloud.run()
    moved(cloud, operator, running)
    assert there(cloud)["h2"] == PowerState.SHUTDOWN
    RevertResize.begin(operator, running.id)
    cloud.run()
    assert state_of(running) == ("stopped", None)
    assert there(cloud) == {"h1": PowerState.SHUTDOWN}


def test_it_moves_back_and_forth(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    for target in ("h2", "h1", "h2"):
        moved(cloud, operator, running)
        ConfirmResize.begin(next_request(operator), running.id)
        cloud.run()
        assert home(cloud, running) == target
        assert there(cloud) == {target: PowerState.RUNNING}


def test_a_moved_server_is_deleted_on_both_hosts(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    moved(cloud, operator, running)
    delete(operator, running.id)
    cloud.run()
    assert there(cloud) == {}
    assert (taken("h1"), taken("h2")) == (NOTHING, NOTHING)


@pytest.mark.parametrize(("reverting", "status"), [(False, "confirmed"), (True, "error")])
def test_a_delete_confirms_a_finished_move_and_ends_a_revert(
    cloud: Cloud, operator: RequestContext, running: Instance, *, reverting: bool, status: str
) -> None:
    moved(cloud, operator, running)
    if reverting:
        RevertResize.begin(next_request(operator), running.id)
    delete(operator, running.id)
    cloud.run()
    assert migration_of(running) == ("migration", status)
    assert there(cloud) == {}


def test_the_bytes_that_are_copied_are_recorded(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    migrate(operator, running.id)
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    h1.carry_out(command(h1, SendGuestRequest))
    received = command(h2, ReceiveGuestRequest)
    h2.report(received, "progress", detail={"done": "300", "total": "1000"})
    row = Migration.objects.get()
    assert (row.disk_total_bytes, row.disk_processed_bytes, row.disk_remaining_bytes) == (1000, 300, 700)
    h2.report(received, "progress", detail={"done": "-5", "total": "x"})
    h2.carry_out(received)


# ----- volumes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def volume(cloud: Cloud, alice: RequestContext, running: Instance) -> Volume:
    """A volume in a pool of the first host, which the server has."""
    cloud.agents["h1"].serve()
    made = Create.begin(alice, VolumeRequest(size_gb=1))
    cloud.run()
    attach_volume(alice, running.id, VolumeToAttach(str(made.id)))
    cloud.run()
    assert Attachment.objects.get().status == "attached"
    return made


def clients(cloud: Cloud) -> list[str]:
    """The hosts that may open the volumes of the pool."""
    [pool] = cloud.agents["h1"].pools.values()
    return [client.host_id for result in pool.clients.values() for client in result]


@pytest.mark.slow
def test_volumes_leave_the_old_host_before_the_new_one_gets_them(
    cloud: Cloud, operator: RequestContext, running: Instance, volume: Volume
) -> None:
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    migrate(operator, running.id)
    h1.carry_out(command(h1, SendGuestRequest))
    drain()
    assert not [each for each in h2.take() if isinstance(each.body, ReceiveGuestRequest)]
    cloud.run()
    assert state_of(running) == ("resized", None)
    assert clients(cloud) == [str(h2.host.id)]
    assert Attachment.objects.get().status == "attached"
    RevertResize.begin(next_request(operator), running.id)
    as_before(cloud, running)
    assert clients(cloud) == [str(h1.host.id)]
    assert Attachment.objects.get().status == "attached"


@pytest.mark.parametrize("task", ["backing-up", "extending", "retyping", "uploading", "maintenance", "downloading"])
def test_a_task_of_a_volume_ends_while_its_server_is_between_two_hosts(volume: Volume, task: str) -> None:
    Volume.objects.filter(id=volume.id).update(status=task)
    attachments.disconnect(Attachment.objects.get().id)
    ended = volume_states.end_task(Volume.objects.get(id=volume.id))
    assert ended.status == "reserved"


@pytest.mark.slow
def test_a_volume_that_cannot_be_connected_returns_the_server(
    cloud: Cloud, operator: RequestContext, running: Instance, volume: Volume
) -> None:
    h1 = cloud.agents["h1"]
    migrate(operator, running.id)
    h1.carry_out(command(h1, SendGuestRequest))
    drain()
    ends, begins = [each for each in h1.take() if isinstance(each.body, ConnectVolumeRequest)]
    h1.carry_out(ends)
    h1.report(begins, "failed", error_code="failed", message="The pool is full.")
    as_before(cloud, running)
    assert "could not be connected" in failed(running)
    assert clients(cloud) == [str(h1.host.id)]


@pytest.mark.slow
def test_a_server_with_volumes_waits_for_a_target_that_is_down(
    cloud: Cloud, operator: RequestContext, running: Instance, volume: Volume
) -> None:
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    migrate(operator, running.id)
    h1.carry_out(command(h1, SendGuestRequest))
    drain()
    h1.work()
    command(h2, ReceiveGuestRequest)
    down = Host.objects.filter(name="h2")
    down.update(last_seen_at=timezone.now() - timedelta(hours=1))
    for _ in range(2):
        Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
        reap()
        drain()
        h1.work()
    assert state_of(running) == ("active", "resize_reverting")
    down.update(forced_down=True)
    Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    for _ in range(3):
        drain()
        h1.work()
    assert state_of(running) == ("active", None)
    assert there(cloud) == {"h1": PowerState.RUNNING}
    down.update(forced_down=False, last_seen_at=timezone.now())
    as_before(cloud, running)


# ----- resize ---------------------------------------------------------------------------------------------------------


def test_a_resize_goes_elsewhere_when_its_own_host_is_full(
    cloud: Cloud, alice: RequestContext, operator: RequestContext, running: Instance
) -> None:
    Host.objects.filter(name="h1").update(memory_mb_total=2048, reserved_memory_mb=0)
    resize(alice, running.id, "2")
    cloud.run()
    assert state_of(running) == ("resized", None)
    assert home(cloud, running) == "h2"
    fresh = cloud.fresh(running)
    assert (fresh.flavor["name"], (fresh.old_flavor or {})["name"]) == ("m1.big", "m1.small")
    assert (taken("h1"), taken("h2")) == (SMALL, (4, 4096, 20, 1))
    assert migration_of(running) == ("resize", "finished")
    RevertResize.begin(alice, running.id)
    as_before(cloud, running)


def test_a_resize_stays_at_home_when_there_is_room(cloud: Cloud, alice: RequestContext, running: Instance) -> None:
    resize(alice, running.id, "2")
    cloud.run()
    assert home(cloud, running) == "h1"
    assert not MoveAllocation.objects.exists()


def test_a_resize_that_no_host_can_take_leaves_the_server_as_it_is(
    cloud: Cloud, alice: RequestContext, running: Instance
) -> None:
    Host.objects.update(memory_mb_total=2048, reserved_memory_mb=0)
    resize(alice, running.id, "2")
    as_before(cloud, running)
    assert "No other host" in InstanceFault.objects.get().message


# ----- refusals -------------------------------------------------------------------------------------------------------


def test_a_host_that_cannot_take_it_is_refused_with_the_reason(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    def why(host: str | None = None) -> str:
        with pytest.raises(InvalidInputError) as caught:
            migrate(operator, running.id, host)
        return caught.value.message

    Host.objects.filter(name="h2").update(memory_mb_total=512, reserved_memory_mb=0)
    assert "memory" in why()
    assert "memory" in why("h2")
    Host.objects.filter(name="h2").update(memory_mb_total=65_536, contract_version=4)
    assert "too old" in why("h2")
    assert why("h1").startswith("Cannot migrate to the host")
    Host.objects.filter(name="h1").update(contract_version=4)
    with pytest.raises(ConflictError):
        migrate(operator, running.id)
    assert not Migration.objects.exists()
    assert state_of(running) == ("active", None)


def pooled(*names: str) -> None:
    """Let hosts store root disks in one pool."""
    Host.objects.filter(name__in=names).update(traits=[ROOT_POOL_TRAIT, root_pool_trait(POOL)])


def left_in_pool(cloud: Cloud, pool: str = POOL) -> None:
    """The first host has stopped the guest, and left its root disk in the pool."""
    h1 = cloud.agents["h1"]
    detail = {ORIGIN: msgspec.json.encode(GuestOrigin(root_pool=pool)).decode()}
    h1.report(command(h1, SendGuestRequest), "finished", detail=detail)


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_root_disk_in_a_pool_moves_without_a_copy_to_hosts_of_the_pool(
    cloud: Cloud, alice: RequestContext, operator: RequestContext, running: Instance, *, confirmed: bool
) -> None:
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    pooled("h1")
    with pytest.raises(InvalidInputError, match="the pool of its root disk"):
        migrate(operator, running.id)
    assert cold_obstacles([cloud.fresh(running)]) == {}
    pooled("h1", "h2")
    migrate(operator, running.id)
    left_in_pool(cloud)
    result = command(h2, ReceiveGuestRequest)
    assert isinstance(result.body, ReceiveGuestRequest)
    assert result.body.origin == GuestOrigin(root_pool=POOL)
    h2.carry_out(result)
    assert state_of(running) == ("resized", None)
    (ConfirmResize if confirmed else RevertResize).begin(alice, running.id)
    other, host = (h1, h2) if confirmed else (h2, h1)
    removal = command(other, DestroyRequest)
    assert removal.body == DestroyRequest(keep_root=True)
    other.carry_out(removal)
    cloud.run()
    assert cloud.agents[home(cloud, running)] is host
    delete(alice, running.id)
    assert command(host, DestroyRequest).body == DestroyRequest()


def test_a_host_is_not_believed_about_another_pool(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    pooled("h1", "h2")
    migrate(operator, running.id)
    left_in_pool(cloud, "00000000-0000-4000-8000-000000000bad")
    as_before(cloud, running)


def test_the_disk_of_a_silent_target_is_taken_back_when_it_is_certainly_off(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    pooled("h1", "h2")
    migrate(operator, running.id)
    left_in_pool(cloud)
    command(cloud.agents["h2"], ReceiveGuestRequest)
    down = Host.objects.filter(name="h2")
    down.update(last_seen_at=timezone.now() - timedelta(hours=1))

    def passes() -> None:
        Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
        reap()
        drain()
        cloud.agents["h1"].work()
        drain()

    for _ in range(3):
        passes()
    assert state_of(running) == ("active", "resize_reverting")
    down.update(forced_down=True)
    passes()
    assert state_of(running) == ("active", None)
    down.update(forced_down=False, last_seen_at=timezone.now())
    as_before(cloud, running)


def test_an_agent_that_cannot_leave_disks_in_a_pool_keeps_the_guest(
    cloud: Cloud, alice: RequestContext, operator: RequestContext, running: Instance
) -> None:
    Host.objects.filter(name="h1").update(traits=[ROOT_POOL_TRAIT], memory_mb_total=2048, reserved_memory_mb=0)
    with pytest.raises(ConflictError, match="pool"):
        migrate(operator, running.id)
    assert "pool" in cold_obstacles([cloud.fresh(running)])[running.id]
    resize(alice, running.id, "2")  # does not go to the other host, which has the space
    assert not MoveAllocation.objects.exists()
    as_before(cloud, running)
    Instance.objects.update(image_id=None)  # the root disk is a volume
    assert cold_obstacles([cloud.fresh(running)]) == {}


def test_a_host_without_a_certificate_is_no_target(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    now = timezone.now()

    def certify(name: str, *, days: int) -> None:
        values = {"digest": "", "trusted": "", "issued_at": now, "ends_at": now + timedelta(days=days)}
        HostCertificate.objects.update_or_create(host=Host.objects.get(name=name), defaults=values)

    certify("h1", days=9)
    with pytest.raises(InvalidInputError, match="certificate"):
        migrate(operator, running.id)
    certify("h2", days=-1)
    with pytest.raises(InvalidInputError, match="certificate"):
        migrate(operator, running.id, "h2")
    assert "certificate" in unfit_targets()(running)["h2"]
    assert state_of(running) == ("active", None)
    certify("h2", days=9)
    moved(cloud, operator, running)


# ----- faults ---------------------------------------------------------------------------------------------------------


def test_a_source_that_cannot_send_gets_its_guest_back(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    migrate(operator, running.id)
    h1 = cloud.agents["h1"]
    h1.report(command(h1, SendGuestRequest), "failed", error_code="unsupported", message="It is in a pool.")
    as_before(cloud, running)
    assert failed(running) == "It is in a pool."


def test_a_source_that_reports_nonsense_is_not_believed(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    migrate(operator, running.id)
    h1 = cloud.agents["h1"]
    detail = {"origin": '{"disks": [{"name": "../etc", "size": 1}], "port": 22}'}
    h1.report(command(h1, SendGuestRequest), "finished", detail=detail)
    as_before(cloud, running)
    failed(running)


@pytest.mark.both_databases("sql")
def test_a_target_that_fails_leaves_the_guest_where_it_was(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    migrate(operator, running.id)
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    h1.carry_out(command(h1, SendGuestRequest))
    h2.report(command(h2, ReceiveGuestRequest), "failed", error_code="host_failed", message="The disk is full.")
    assert state_of(running) == ("active", "resize_reverting")
    as_before(cloud, running)
    assert failed(running) == "The disk is full."


def test_a_guest_that_cannot_be_started_again_is_still_the_recorded_one(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    known = h1.guests[str(running.id)][0]
    migrate(operator, running.id)
    h1.carry_out(command(h1, SendGuestRequest))
    h2.report(command(h2, ReceiveGuestRequest), "failed", error_code="host_failed", message="The disk is full.")
    h2.work()
    h1.report(command(h1, ReturnGuestRequest), "failed", error_code="host_failed", message="It does not start.")
    assert (state_of(running), h1.guests[str(running.id)][0]) == (("error", None), known)
    assert cloud.fresh(running).guest_attempt == known
    h1.guests[str(running.id)] = (known, PowerState.RUNNING)
    h1.hello()
    drain()
    assert cloud.fresh(running).guest_attempt == known


@pytest.mark.parametrize("with_guest", [False, True])
def test_a_silent_target_has_nothing_left_before_the_guest_starts_again(
    cloud: Cloud, operator: RequestContext, running: Instance, *, with_guest: bool
) -> None:
    migrate(operator, running.id)
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    h1.carry_out(command(h1, SendGuestRequest))
    late = command(h2, ReceiveGuestRequest)
    if with_guest:
        h2.guests[str(running.id)] = (late.generation, PowerState.RUNNING)
    Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    drain()
    assert not [each for each in h1.take() if isinstance(each.body, ReturnGuestRequest)]
    as_before(cloud, running)
    h2.report(late, "finished", power_state=PowerState.RUNNING)
    as_before(cloud, running)
    failed(running)


def test_a_server_returns_from_a_target_that_is_down(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    migrate(operator, running.id)
    h1, h2 = cloud.agents["h1"], cloud.agents["h2"]
    h1.carry_out(command(h1, SendGuestRequest))
    command(h2, ReceiveGuestRequest)
    Host.objects.filter(name="h2").update(last_seen_at=timezone.now() - timedelta(hours=1))
    Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    drain()
    h1.work()
    assert state_of(running) == ("active", None)
    assert there(cloud) == {"h1": PowerState.RUNNING}
    assert taken("h2") == SMALL, "until it confirms"
    Host.objects.update(last_seen_at=timezone.now())
    as_before(cloud, running)


def test_a_silent_source_gets_its_guest_back(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    migrate(operator, running.id)
    h1 = cloud.agents["h1"]
    late = command(h1, SendGuestRequest)
    h1.guests[str(running.id)] = (running.attempt, PowerState.SHUTDOWN)
    Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    as_before(cloud, running)
    h1.carry_out(late)
    cloud.run()
    assert state_of(running) == ("active", None)


def test_a_server_is_deleted_at_each_step(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    migrate(operator, running.id)
    h1 = cloud.agents["h1"]
    h1.carry_out(command(h1, SendGuestRequest))
    drain()
    delete(operator, running.id)
    cloud.run()
    assert state_of(running) == ("deleted", None)
    assert there(cloud) == {}
    assert (taken("h1"), taken("h2")) == (NOTHING, NOTHING)
    assert not Allocation.objects.exists()


def test_hosts_that_report_their_guests_in_the_middle_keep_them(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    moved(cloud, operator, running)
    for agent in cloud.agents.values():
        agent.hello()
    cloud.run()
    assert there(cloud) == {"h1": PowerState.SHUTDOWN, "h2": PowerState.RUNNING}
    assert state_of(running) == ("resized", None)


def test_the_state_is_not_reset_in_the_middle(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    migrate(operator, running.id)
    with pytest.raises(ConflictError):
        ResetState.begin(operator, running.id, "active")
    cloud.run()
    assert state_of(running) == ("resized", None)


def test_a_second_move_waits_for_the_first(cloud: Cloud, operator: RequestContext, running: Instance) -> None:
    migrate(operator, running.id)
    with pytest.raises(ConflictError):
        migrate(operator, running.id)
    cloud.run()
    assert MoveAllocation.objects.count() == 1
