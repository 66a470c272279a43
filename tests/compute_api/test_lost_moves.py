"""Guests that went over to new data, or to another volume, by records which are lost: what the guest has is right."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from compute_agent.contract.commands import SwapVolumeRequest
from compute_agent.contract.messages import Command, GuestState
from compute_agent.contract.volume import KnownVolume
from provisioning.compute.models import BlockDevice, InstanceAction
from provisioning.hosts import audits, restored
from provisioning.quotas.recounts import drift
from provisioning.volumes import services as volumes
from provisioning.volumes.models import Attachment, StoragePool, Volume
from provisioning.volumes.pools import placement
from provisioning.volumes.upkeep.upkeep import reap
from tests.compute_api.conftest import V21, launch, new_volume
from tests.compute_api.test_volumes import attach, cloud, commands_of, status
from tests.core.doctor.findings import look
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.copies import Copy
from tests.support.jobs import drain
from tests.support.landing import diagonal
from tests.support.passing_time import pass_time
from tests.support.scripted_pool import ScriptedPool
from tests.support.standing import standing

__all__ = ["cloud"]


@pytest.fixture(autouse=True)
def _nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)


@dataclass
class Guest:
    """A running server with a volume, and a second pool to which the volume moves."""

    people: People
    cloud: Cloud
    server: str
    volume: Volume
    target: str

    def move(self) -> Command:
        """Have the volume's data moved, and return the command that moves the guest."""
        volumes.Migrate.begin(self.people.operator.context, self.volume.id, uuid.UUID(self.target))
        [swap] = commands_of(self.cloud, SwapVolumeRequest)
        return swap

    def ends(self, swap: Command) -> None:
        self.cloud.agents["h1"].carry_out(swap)
        drain()
        self.cloud.run()

    def says(self, volume: str, attachment: str) -> None:
        """Let the host list the data that it knows, and which volume the guest has by which attachment."""
        agent, now = self.cloud.agents["h1"], Volume.objects.count()
        for _ in range(2 + now):
            agent.hello(volumes=agent.memory.listed())
            attempt, power = agent.guests[self.server]
            guest = GuestState(self.server, attempt, power, volumes=[volume], attachments={volume: attachment})
            audits.compare(agent.host.id, [guest], complete=True)
            self.cloud.run()

    def check(self, attachment: str) -> None:
        """Check that the volume has the guest's data, in the other pool, and that nothing else is left or claimed."""
        volume, row, device = Volume.objects.get(), Attachment.objects.get(), BlockDevice.objects.get()
        assert (str(row.id), str(row.instance_id), row.connector) == (attachment, self.server, {})
        assert (str(device.attachment_id), device.swap_attachment_id) == (attachment, None)
        assert (volume.status, str(volume.pool_id)) == ("in-use", self.target)
        stored = {name for pool in self.cloud.agents["h1"].pools.values() for name in pool.volumes}
        assert stored == {str(volume.data_id)}
        assert [str(difference) for difference in drift.find()] == []
        pools = StoragePool.objects.all()
        assert {each.id: each.allocated_gb for each in pools} == placement.sums([each.id for each in pools])
        assert "socket" in row.connection, "a guest that is made again opens it"


def new_of(swap: Command) -> str:
    assert isinstance(swap.body, SwapVolumeRequest)
    return swap.body.new.attachment_id


@pytest.fixture
@standing
def guest(api: Api, cloud: Cloud, people: People) -> Guest:
    cloud.agents["h1"].serve(ScriptedPool(name="other"))
    server, volume = launch(api, cloud), new_volume(people, cloud)
    attach(api, server, volume)
    cloud.run()
    volume.refresh_from_db()
    target = next(key for key in cloud.agents["h1"].pools if key != str(volume.pool_id))
    return Guest(people, cloud, server, volume, target)


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.doctor_finds("newer_volumes")
@pytest.mark.parametrize("reported", [True, False], ids=["ended", "its end was not heard of"])
def test_a_move_that_no_record_knows_is_the_volumes(guest: Guest, *, reported: bool) -> None:
    copy = Copy()
    swap = guest.move()
    if reported:
        guest.ends(swap)
    copy.put_back()
    restored.after_restore()
    guest.says(str(guest.volume.id), new_of(swap))
    guest.check(new_of(swap))
    assert any(new_of(swap) in finding.sentence for finding in look("newer_volumes"))


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.doctor_finds("newer_volumes")
@diagonal(reported=[True, False], late=[True, False])
def test_a_move_that_the_records_have_begun_ends_by_what_the_guest_has(
    guest: Guest, *, reported: bool, late: bool
) -> None:
    swap = guest.move()
    copy = Copy()
    if reported:
        guest.ends(swap)
    copy.put_back()
    restored.after_restore()
    if late:
        pass_time(86_400 / 2)
        volumes_reap()
    guest.says(str(guest.volume.id), new_of(swap))
    guest.check(new_of(swap))


def volumes_reap() -> None:
    reap()
    drain()


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.doctor_finds("newer_volumes", "undecided_volumes")
def test_a_move_whose_new_data_alone_is_known_ends_by_what_the_guest_has(guest: Guest) -> None:
    """The copy was made before anybody was let in to the new data."""
    volumes.Migrate.begin(guest.people.operator.context, guest.volume.id, uuid.UUID(guest.target))
    copy = Copy()
    [swap] = commands_of(guest.cloud, SwapVolumeRequest)
    guest.ends(swap)
    copy.put_back()
    restored.after_restore()
    guest.says(str(guest.volume.id), new_of(swap))
    guest.check(new_of(swap))


@pytest.mark.slow
@pytest.mark.doctor_finds("newer_volumes")
def test_data_without_its_key_is_named_and_left_alone(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, agent = Copy(), guest.cloud.agents["h1"]
    swap = guest.move()
    guest.ends(swap)
    listed = agent.memory.listed

    def encrypted() -> list[KnownVolume]:
        return [replace(each, encrypted=not each.gone) for each in listed()]

    monkeypatch.setattr(agent.memory, "listed", encrypted)
    copy.put_back()
    restored.after_restore()
    guest.says(str(guest.volume.id), new_of(swap))
    assert Volume.objects.count() == 1
    (finding,) = look("newer_volumes")
    assert new_of(swap) in finding.sentence
    assert "The key" in finding.sentence


@pytest.mark.slow
@pytest.mark.doctor_finds("newer_volumes")
def test_a_host_alone_gives_a_volume_no_other_data(guest: Guest) -> None:
    """Nobody attests that records are lost, or those of the disk are newer than the restore."""
    copy = Copy()
    swap = guest.move()
    guest.ends(swap)
    copy.put_back()
    before = Attachment.objects.get().id
    guest.says(str(guest.volume.id), new_of(swap))
    assert (Attachment.objects.get().id, BlockDevice.objects.get().attachment_id) == (before, before)


@pytest.mark.slow
@pytest.mark.doctor_finds("newer_volumes")
def test_an_older_audit_after_a_move_changes_nothing(guest: Guest) -> None:
    restored.after_restore()
    before = str(Attachment.objects.get().id)
    swap = guest.move()
    guest.ends(swap)
    guest.says(str(guest.volume.id), before)
    guest.check(new_of(swap))
    assert look("newer_volumes") == []


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.doctor_finds("newer_volumes", "guest_volumes")
def test_an_exchange_that_the_records_have_begun_ends_by_what_the_guest_has(
    api: Api, cloud: Cloud, people: People
) -> None:
    server, old, new = launch(api, cloud), new_volume(people, cloud), new_volume(people, cloud)
    attach(api, server, old)
    cloud.run()
    url = f"{V21}/servers/{server}/os-volume_attachments/{old.id}"
    assert Api(people.operator).put(url, {"volumeAttachment": {"volumeId": str(new.id)}}).status_code == 202
    [swap] = commands_of(cloud, SwapVolumeRequest)
    copy, guest = Copy(), Guest(people, cloud, server, old, "")
    guest.ends(swap)
    copy.put_back()
    restored.after_restore()
    guest.says(str(new.id), new_of(swap))
    assert (status(old), status(new)) == ("available", "in-use")
    assert [(row.volume_id, str(row.id)) for row in Attachment.objects.all()] == [(new.id, new_of(swap))]
    assert [(each.volume_id, str(each.attachment_id)) for each in BlockDevice.objects.all()] == [(new.id, new_of(swap))]
    assert not InstanceAction.objects.filter(action="swap_volume", finished_at=None).exists()
