"""The data of a volume in use moves: only the guest's host knows which data the guest writes to, and that data wins."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest
from django.core.management import CommandError, call_command

from compute_agent.contract.commands import DetachVolumeRequest, RefreshVolumeRequest, SwapVolumeRequest
from compute_agent.contract.messages import Command
from provisioning.common.errors import ForbiddenError
from provisioning.compute.models import BlockDevice
from provisioning.compute.services.hosts import change_host
from provisioning.compute.upkeep import reaper
from provisioning.doctor.checks import older_volumes
from provisioning.hosts.models import Host, HostCommand
from provisioning.quotas.recounts import drift
from provisioning.volumes import services as volumes
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Attachment, Message, Volume, VolumeType
from provisioning.volumes.services import messages
from provisioning.volumes.services.updates.migrate import keep_data
from provisioning.volumes.upkeep.upkeep import follow_dead_hosts, reap
from tests.compute_api.conftest import V21, launch, new_volume
from tests.compute_api.test_volumes import attach, cloud, commands_of, status
from tests.compute_api.test_volumes_lost import sent_commands
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.landing import diagonal
from tests.support.passing_time import pass_time
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool
from tests.support.standing import standing

__all__ = ["cloud"]

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@dataclass
class Move:
    """A volume of a running server whose host was told to copy it to another pool."""

    people: People
    cloud: Cloud
    server: str
    volume: Volume
    before: Attachment
    target: str
    swap: Command

    @property
    def agent(self) -> ScriptedAgent:
        return self.cloud.agents["h1"]

    @property
    def new(self) -> str:
        assert isinstance(self.swap.body, SwapVolumeRequest)
        return self.swap.body.new.attachment_id

    def ends(self, *, well: bool) -> list[Command]:
        """Let the host report the end; return what hosts are told then, all of which they carry out."""
        if well:
            self.agent.carry_out(self.swap)
        else:
            self.agent.report(self.swap, "failed", error_code="host_failed", message="No mirror exists.")
        drain()
        return sent_commands(self.cloud)

    def check(self, *, moved: bool, attached: bool = True) -> None:
        """Check that the volume has the data that the guest has, and that nothing else is left."""
        volume = Volume.objects.get()
        assert (str(volume.pool_id) == self.target) is moved
        assert volume.migration_status == ("success" if moved else "error")
        assert [str(row.id) for row in Attachment.objects.all()] == (
            [self.new if moved else str(self.before.id)] if attached else []
        )
        device = BlockDevice.objects.first()
        assert (device is not None) is attached
        if device is not None:
            assert (str(device.attachment_id), device.swap_attachment_id) == (str(Attachment.objects.get().id), None)
        stored = {name for pool in self.agent.pools.values() for name in pool.volumes}
        assert stored == {str(volume.data_id or volume.id)}
        assert [str(difference) for difference in drift.find()] == []


@pytest.fixture
@standing
def move(api: Api, cloud: Cloud, people: People) -> Move:
    cloud.agents["h1"].serve(ScriptedPool(name="other"))
    server, volume = launch(api, cloud), new_volume(people, cloud)
    attach(api, server, volume)
    cloud.run()
    volume.refresh_from_db()
    target = next(key for key in cloud.agents["h1"].pools if key != str(volume.pool_id))
    before = Attachment.objects.get()
    volumes.Migrate.begin(people.operator.context, volume.id, uuid.UUID(target))
    [swap] = commands_of(cloud, SwapVolumeRequest)
    return Move(people, cloud, server, volume, before, target, swap)


def long_after() -> None:
    """Let days pass in which nobody hears anything, and look after what is overdue, more than once."""
    for _ in range(3):
        pass_time(86_400)
        reap()
        reaper.reap()
        follow_dead_hosts()
        drain()


def test_a_copy_that_makes_progress_moves_the_deadline_of_the_volume(move: Move) -> None:
    seconds = HostCommand.objects.get(id=move.swap.id).timeout or 0
    for done in range(1, 20):
        pass_time(0.8 * seconds)
        before = Volume.objects.get(id=move.volume.id).deadline
        move.agent.report(move.swap, "progress", detail={"done": str(done), "total": "1000"})
        after = Volume.objects.get(id=move.volume.id).deadline
        assert before is not None
        assert after is not None
        assert done * seconds < 3600 or after > before
        reap()
        reaper.reap()
        assert status(move.volume) == "maintenance"
    move.ends(well=True)
    move.check(moved=True)


@pytest.mark.parametrize("well", [True, False])
def test_silence_does_not_end_a_move_that_a_host_has_begun(move: Move, well: bool) -> None:
    """The portal was down for days, say, or the host was cut off."""
    long_after()
    assert (status(move.volume), Volume.objects.count(), Attachment.objects.count()) == ("maintenance", 2, 2)
    move.ends(well=well)
    move.check(moved=well)
    assert status(move.volume) == "in-use"


def reset(move: Move, **body: str) -> None:
    volumes.reset_status(move.people.operator.context, move.volume.id, **body)


@diagonal(
    said=[{"status": "in-use"}, {"status": "error"}, {"migration_status": "none"}, {"status": "available"}],
    well=[True, False],
)
def test_an_operators_reset_does_not_decide_which_data_the_guest_has(
    move: Move, said: dict[str, str], well: bool
) -> None:
    reset(move, **said)
    long_after()
    move.ends(well=well)
    move.check(moved=well)
    requested = said.get("status", "in-use")
    assert status(move.volume) == ("error" if requested == "error" else "in-use")


@pytest.mark.parametrize("well", [True, False])
def test_a_volume_that_is_taken_by_force_has_the_data_that_the_guest_wrote_last(move: Move, well: bool) -> None:
    volumes.force_detach(move.people.operator.context, move.volume.id)
    drain()
    follow_ups = move.ends(well=well)
    move.check(moved=well, attached=False)
    reset(move, status="available")
    assert status(move.volume) == "available"
    if well:
        removed = {each.body.disk.attachment_id for each in follow_ups if isinstance(each.body, DetachVolumeRequest)}
        assert move.new in removed, "the guest loses its new disk as well"


@pytest.mark.parametrize("well", [True, False])
def test_a_host_that_was_declared_dead_may_come_back_with_the_new_data(move: Move, well: bool) -> None:
    host, operator = Host.objects.get(), move.people.operator.context
    change_host(operator, host.id, forced_down=True)
    long_after()
    change_host(operator, host.id, forced_down=False)
    move.ends(well=well)
    move.check(moved=well)


# ----- nobody reports any more ----------------------------------------------------------------------------------------


def undecided() -> list[str]:
    return [result.sentence for result in older_volumes.undecided()]


@pytest.fixture
@standing
def lost(api: Api, move: Move) -> Move:
    """The server was deleted while its host was declared dead."""
    operator = move.people.operator.context
    change_host(operator, Host.objects.get().id, forced_down=True)
    assert api.delete(f"{V21}/servers/{move.server}").status_code == 204
    drain()
    long_after()
    change_host(operator, Host.objects.get().id, forced_down=False)
    return move


def decide(move: Move, keep: str) -> None:
    call_command("volume_data", str(move.volume.id), "--keep", keep)
    move.cloud.run()
    assert undecided() == []
    with pytest.raises(CommandError):
        call_command("volume_data", str(move.volume.id), "--keep", keep)


@pytest.mark.parametrize("keep", ["new", "old"])
def test_an_operator_decides_about_data_of_which_no_host_reports(lost: Move, keep: str) -> None:
    assert (status(lost.volume), Volume.objects.count()) == ("error", 2)
    assert all(pool.volumes for pool in lost.agent.pools.values()), "both data are kept"
    [finding] = undecided()
    assert f"volume_data {lost.volume.id}" in finding
    assert Message.objects.filter(resource_id=lost.volume.id, action_id=messages.MIGRATE.id).exists()
    with pytest.raises(InvalidVolumeError):
        volumes.Migrate.begin(lost.people.operator.context, lost.volume.id, uuid.UUID(lost.target))
    decide(lost, keep)
    assert status(lost.volume) == "available"
    lost.check(moved=keep == "new", attached=False)


def test_a_user_may_delete_a_volume_that_is_undecided(lost: Move) -> None:
    volumes.Delete.begin(lost.people.alice.context, lost.volume.id, volumes.VolumeDeletion())
    lost.cloud.run()
    assert not Volume.objects.exists()
    assert [name for pool in lost.agent.pools.values() for name in pool.volumes] == []
    assert [str(difference) for difference in drift.find()] == []


def test_an_operator_decides_for_a_host_that_is_dead_and_waits_for_no_deadline(move: Move) -> None:
    assert undecided() == []
    with pytest.raises(CommandError):
        call_command("volume_data", str(move.volume.id), "--keep", "new")
    change_host(move.people.operator.context, Host.objects.get().id, forced_down=True)
    assert len(undecided()) == 1
    call_command("volume_data", str(move.volume.id), "--keep", "new")
    volume = Volume.objects.get(id=move.volume.id)
    assert (str(volume.pool_id), volume.migration_status) == (move.target, "success")


def test_only_operators_decide_about_data(lost: Move) -> None:
    with pytest.raises(ForbiddenError):
        keep_data(lost.people.alice.context, lost.volume.id, new=True)
    assert len(undecided()) == 1


def test_nothing_else_is_done_with_data_that_moves_whatever_its_status_says(move: Move) -> None:
    reset(move, status="in-use")
    alice = move.people.alice.context
    VolumeType.objects.create(name="plain")
    for work in (
        lambda: volumes.CreateSnapshot.begin(alice, move.volume.id, volumes.SnapshotRequest(force=True)),
        lambda: volumes.Extend.begin(alice, move.volume.id, 9),
        lambda: volumes.Retype.begin(alice, move.volume.id, volumes.RetypeRequest("plain")),
        lambda: volumes.Migrate.begin(move.people.operator.context, move.volume.id, uuid.UUID(move.target)),
        lambda: volumes.Delete.begin(move.people.operator.context, move.volume.id, volumes.VolumeDeletion(force=True)),
    ):
        with pytest.raises(InvalidVolumeError):
            work()
    move.ends(well=True)
    move.check(moved=True)
    volumes.CreateSnapshot.begin(alice, move.volume.id, volumes.SnapshotRequest(force=True))
    move.cloud.run()


def test_an_exchange_of_volumes_ends_by_the_hosts_report_alone(api: Api, cloud: Cloud, people: People) -> None:
    server, old, new = launch(api, cloud), new_volume(people, cloud), new_volume(people, cloud)
    attach(api, server, old)
    cloud.run()
    url = f"{V21}/servers/{server}/os-volume_attachments/{old.id}"
    assert Api(people.operator).put(url, {"volumeAttachment": {"volumeId": str(new.id)}}).status_code == 202
    [swap] = commands_of(cloud, SwapVolumeRequest)
    long_after()
    assert (status(old), status(new)) == ("in-use", "attaching")
    cloud.agents["h1"].carry_out(swap)
    drain()
    cloud.run()
    assert (status(old), status(new)) == ("available", "in-use")


def test_a_grown_volume_waits_for_the_host_that_makes_its_guests_disk_larger(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    attach(api, server, volume)
    cloud.run()
    volumes.Extend.begin(people.alice.context, volume.id, 4)
    [refresh] = commands_of(cloud, RefreshVolumeRequest)
    seconds = HostCommand.objects.get(id=refresh.id).timeout or 0
    for done in range(1, 9):
        pass_time(0.8 * seconds)
        cloud.agents["h1"].report(refresh, "progress", detail={"done": str(done)})
        reap()
        reaper.reap()
        assert status(volume) == "extending"
    cloud.agents["h1"].carry_out(refresh)
    drain()
    cloud.run()
    volume.refresh_from_db()
    assert (volume.status, volume.size_gb) == ("in-use", 4)
