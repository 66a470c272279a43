"""Root disks in a folder that two hosts share: they move by their names, and one host at a time can write to them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.moves import LIVE_POOL_TRAIT, GuestOrigin, root_pool_trait
from compute_agent.contract.power import PowerState
from compute_agent.servers.root_disks import KIND, PoolRootDisks, disk_id
from compute_agent.virt.errors import HostError, InstanceNotFoundError
from compute_agent.virt.fake.driver import FakeDriver
from compute_agent.virt.live_migration import Arrival, Departure, MigrationOptions
from compute_agent.virt.migration_link.errors import MigrationUndecidedError
from compute_agent.virt.processes import processes
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import GIB, PoolSettings
from compute_agent.volumes.errors import VolumeInUseError, VolumeNotFoundError
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.cast import make_spec
from tests.agent.volumes.conftest import MIB, qemu_io

pytestmark = pytest.mark.slow


class NoImages:
    """No host fetches an image: the tests have a file."""


@dataclass
class Host:
    """A host with simulated guests, whose root disks are real."""

    name: str
    driver: PoolRootDisks
    volumes: Volumes
    folder: Path

    def launch(self, spec: InstanceSpec, base: Path) -> None:
        self.driver.create_disk(spec, base)
        self.start(spec, 1)

    def start(self, spec: InstanceSpec, attempt: int) -> None:
        self.driver.define(spec, attempt)
        self.driver.start(spec.uuid)

    def io(self, spec: InstanceSpec, command: str) -> bool:
        """Run a command of qemu-io through the guest's connection. Return whether it succeeded."""
        description = self.volumes.daemons.description(disk_id(spec.uuid, self.name))
        if description is None:
            return False
        socket = self.folder / "sockets" / f"{description.volume.id}.sock"
        export = description.exports[-1].name
        result = qemu_io(f"nbd+unix:///{export}?socket={socket}", command)
        return "bytes at offset" in result and "failed" not in result

    def writes(self, spec: InstanceSpec, pattern: int) -> bool:
        return self.io(spec, f"write -f -P {pattern} 0 {MIB}")

    def reads(self, spec: InstanceSpec, pattern: int) -> bool:
        return self.io(spec, f"read -P {pattern} 0 {MIB}")

    def loses_power(self) -> None:
        for each in self.volumes.daemons.descriptions():
            pid = processes.read_pid(self.volumes.daemons.runtime / each.volume.id / "pid")
            assert pid is not None
            assert processes.kill(pid, signal.SIGKILL)


def make_host(name: str, pool: Path, folder: Path) -> Host:
    folder.mkdir()
    daemons = Daemons(folder / "run", folder / "sockets", Address(lambda: "127.0.0.1"), folder / "kept")
    driver = drivers.make(PoolSettings("shared", "dir", str(pool), name))
    volumes = Volumes([driver], daemons, Outside(NoImages()))  # type: ignore[arg-type] # it has no methods
    volumes.states()
    return Host(name, PoolRootDisks(FakeDriver(), volumes, "shared", name), volumes, folder)


@pytest.fixture
def hosts(tmp_path: Path, short: Path) -> Iterator[tuple[Host, Host]]:
    made = [make_host(name, tmp_path / "pool", short / name) for name in ("one", "two")]
    yield made[0], made[1]
    for host in made:
        host.volumes.daemons.end_all()


@pytest.fixture
def spec() -> InstanceSpec:
    return make_spec()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The file of an image."""
    path = tmp_path / "image"
    path.write_bytes(b"\7" * MIB)
    return path


def no_fetch(*_: object) -> None:
    pytest.fail("Nothing is copied.")


def roots(host: Host) -> list[str]:
    return host.volumes.driver(host.driver.pool_id).names()


def move(spec: InstanceSpec, source: Host, target: Host, *, attempt: int = 2) -> None:
    source.driver.stop(spec.uuid, 0)
    sent = source.driver.disks_to_send(spec.uuid)
    assert sent.files == ()
    for _ in range(2):  # as after the death of the agent
        target.driver.receive_disks(spec, None, GuestOrigin(root_pool=sent.root_pool), no_fetch)
    assert root_pool_trait(sent.root_pool) in {*source.driver.capacity().traits} & {*target.driver.capacity().traits}
    target.start(spec, attempt)


def test_both_hosts_report_the_same_pool(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    assert one.driver.pool_id == two.driver.pool_id


def test_a_move_copies_nothing_and_is_reverted(hosts: tuple[Host, Host], spec: InstanceSpec, base: Path) -> None:
    one, two = hosts
    larger = replace(spec, flavor=replace(spec.flavor, root_gb=spec.flavor.root_gb + 1))
    one.launch(spec, base)
    assert one.reads(spec, 7)
    assert one.writes(spec, 1)
    move(larger, one, two)
    assert roots(one) == [disk_id(spec.uuid, "two")]
    assert two.reads(spec, 1)
    assert two.writes(spec, 2)
    two.driver.leave(spec.uuid)
    one.driver.restore_left_disk(spec.uuid)
    one.start(spec, 3)
    assert one.reads(spec, 1)
    assert roots(one) == [disk_id(spec.uuid, "one")]
    one.driver.destroy(spec.uuid)
    assert roots(one) == []
    assert one.volumes.driver(one.driver.pool_id).sweep() == []


def test_a_confirmed_move_keeps_no_earlier_state(hosts: tuple[Host, Host], spec: InstanceSpec, base: Path) -> None:
    one, two = hosts
    one.launch(spec, base)
    driver = one.volumes.driver(one.driver.pool_id)
    source, target = one, two
    for attempt in range(2, 6):
        move(spec, source, target, attempt=attempt)
        assert target.writes(spec, attempt)
        name = disk_id(spec.uuid, target.name)
        assert len(driver.snapshots(name)) == 1
        source.driver.leave(spec.uuid)  # while the guest runs on the other host
        assert driver.snapshots(name) == []
        assert source.driver.leftovers() == target.driver.leftovers() == []
        assert not driver.can_merge(name)
        assert target.reads(spec, attempt)
        source, target = target, source


def test_an_evacuation_takes_the_disk_over(hosts: tuple[Host, Host], spec: InstanceSpec, base: Path) -> None:
    one, two = hosts
    one.launch(spec, base)
    assert one.writes(spec, 3)
    one.loses_power()
    assert two.driver.adopt_disks(spec, None)
    two.start(spec, 2)
    assert two.reads(spec, 3)
    one.volumes.check()  # it is back, and serves its volumes again
    assert not one.reads(spec, 3)
    with pytest.raises(InstanceNotFoundError):
        one.driver.define(spec, 1)
    assert two.writes(spec, 4)
    one.driver.leave(spec.uuid)
    assert roots(one) == [disk_id(spec.uuid, "two")]
    two.driver.leave(spec.uuid)  # the evacuation has failed
    assert roots(one) == [disk_id(spec.uuid, "one")]
    one.start(spec, 3)
    assert one.reads(spec, 4)


def test_a_host_that_still_writes_keeps_the_disk(hosts: tuple[Host, Host], spec: InstanceSpec, base: Path) -> None:
    """It was forced down, but is only cut off from the portal."""
    one, two = hosts
    one.launch(spec, base)
    with pytest.raises(VolumeInUseError):
        two.driver.adopt_disks(spec, None)
    two.driver.leave(spec.uuid)  # of the failed build
    assert one.writes(spec, 5)
    assert one.reads(spec, 5)
    assert roots(two) == [disk_id(spec.uuid, "one")]


def test_a_disk_is_not_returned_when_its_old_host_has_another(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path
) -> None:
    """The server was built again on its host, while the other one was away with the disk."""
    one, two = hosts
    one.launch(spec, base)
    one.loses_power()
    assert two.driver.adopt_disks(spec, None)
    one.driver.destroy(spec.uuid)
    one.launch(spec, base)
    assert one.writes(spec, 6)
    two.driver.leave(spec.uuid)
    assert sorted(roots(one)) == sorted(disk_id(spec.uuid, name) for name in ("one", "two"))
    assert one.reads(spec, 6)
    assert [(left.kind, left.subject_id) for left in two.driver.leftovers()] == [(KIND, spec.uuid)]
    two.driver.destroy(spec.uuid)  # the doctor's repair
    assert two.driver.leftovers() == []
    assert roots(one) == [disk_id(spec.uuid, "one")]
    assert one.reads(spec, 6)


def test_a_third_host_does_not_guess_among_two_disks(hosts: tuple[Host, Host], spec: InstanceSpec, base: Path) -> None:
    one, two = hosts
    one.driver.create_disk(spec, base)
    two.driver.create_disk(spec, base)
    third = PoolRootDisks(FakeDriver(), two.volumes, "shared", "three")
    with pytest.raises(HostError, match="several root disks"):
        third.adopt_disks(spec, None)
    assert len(roots(one)) == 2


def begin(spec: InstanceSpec, source: Host, target: Host) -> tuple[Departure, Arrival, bytes]:
    """Begin to send the running guest to the target. Return both sides, and what the target has prepared."""
    arrival = target.driver.arrival(spec, 2)
    assert not arrival.needs_image()
    arrival.create_disks(None)
    departure = source.driver.departure(spec.uuid, MigrationOptions(post_copy=True))
    return departure, arrival, arrival.prepare(departure.begin(arrival.shape(departure.offer())))


def test_a_running_guest_moves_there_and_back(hosts: tuple[Host, Host], spec: InstanceSpec, base: Path) -> None:
    one, two = hosts
    one.launch(spec, base)
    assert LIVE_POOL_TRAIT in {*one.driver.capacity().traits} & {*two.driver.capacity().traits}
    for pattern, source, target in ((5, one, two), (6, two, one)):
        departure, arrival, prepared = begin(spec, source, target)
        assert not target.writes(spec, 9), "the other host still has it open"
        assert source.writes(spec, pattern)
        performed = departure.perform(prepared)
        assert not source.writes(spec, 9)
        finished = arrival.finish(performed)
        departure.leave(finished)
        for _ in range(2):  # as after the death of the agent
            arrival.settle()
        source.driver.leave(spec.uuid)
        assert roots(one) == [disk_id(spec.uuid, target.name)]
        assert target.reads(spec, pattern)
        assert target.writes(spec, pattern + 2)
        assert target.driver.power_state(spec.uuid) == PowerState.RUNNING
        assert one.driver.leftovers() == two.driver.leftovers() == []
    two.volumes.check()
    assert one.reads(spec, 8)


def test_a_disk_that_is_still_open_is_not_taken_over(hosts: tuple[Host, Host], spec: InstanceSpec, base: Path) -> None:
    one, two = hosts
    one.launch(spec, base)
    departure, arrival, prepared = begin(spec, one, two)
    with pytest.raises(VolumeInUseError, match="open elsewhere"):
        arrival.finish(prepared)
    departure.stay()
    assert roots(one) == [disk_id(spec.uuid, "one")]
    assert one.writes(spec, 5)
    assert not two.writes(spec, 9)


@pytest.mark.parametrize("failing", ["the switch", "the start"])
def test_a_guest_that_does_not_start_there_stays(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    one, two = hosts
    one.launch(spec, base)
    assert one.writes(spec, 5)
    departure, arrival, prepared = begin(spec, one, two)
    performed = departure.perform(prepared)
    if failing == "the start":

        def fail(_: bytes) -> bytes:
            raise HostError("It does not start.")

        monkeypatch.setattr(arrival._inner, "finish", fail)  # type: ignore[attr-defined]
        with pytest.raises(HostError, match="does not start"):
            arrival.finish(performed)
        assert roots(two) == [disk_id(spec.uuid, "one")]
    departure.stay()
    assert roots(one) == [disk_id(spec.uuid, "one")]
    assert one.reads(spec, 5)
    assert one.writes(spec, 6)
    assert not two.writes(spec, 9)


def test_one_of_two_hosts_writes_while_the_portal_decides(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path
) -> None:
    one, two = hosts
    one.launch(spec, base)
    departure, arrival, prepared = begin(spec, one, two)
    arrival.finish(departure.perform(prepared))
    with pytest.raises(MigrationUndecidedError):
        departure.stay()
    with pytest.raises(VolumeInUseError):
        one.driver.keep(spec.uuid)
    assert two.writes(spec, 5)
    assert not one.writes(spec, 9)
    two.driver.leave(spec.uuid)
    one.driver.keep(spec.uuid)
    assert one.reads(spec, 5)
    assert one.writes(spec, 6)


@pytest.mark.parametrize("step", ["rename", "opening", "finish"])
def test_a_receiver_that_dies_in_the_hand_over_keeps_the_disk_until_it_is_removed(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its storage daemon survives the agent and has the lock of the disk, before and after the rename."""
    one, two = hosts
    one.launch(spec, base)
    departure, arrival, prepared = begin(spec, one, two)
    performed = departure.perform(prepared)
    pool = two.volumes.driver(two.driver.pool_id)
    where = {"rename": pool.layers, "opening": pool, "finish": arrival._inner}[step]  # type: ignore[attr-defined]

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as killed:
        killed.setattr(where, step, die)
        killed.setattr(two.driver, "give_back", lambda _: None)
        with pytest.raises(SystemExit):
            arrival.finish(performed)
    with pytest.raises(MigrationUndecidedError):
        departure.stay()
    with pytest.raises(VolumeInUseError):
        one.driver.keep(spec.uuid)
    assert not one.writes(spec, 9)
    two.driver.leave(spec.uuid)  # the agent is back
    one.driver.keep(spec.uuid)
    assert one.writes(spec, 5)
    assert one.reads(spec, 5)
    assert roots(two) == [disk_id(spec.uuid, "one")]
    assert not two.writes(spec, 9)


@pytest.mark.parametrize("resume", ["keep", "unpause"])
def test_the_old_host_takes_the_disk_back_when_the_new_one_is_off(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path, resume: str
) -> None:
    one, two = hosts
    one.launch(spec, base)
    departure, arrival, prepared = begin(spec, one, two)
    arrival.finish(departure.perform(prepared))
    assert two.writes(spec, 5)
    two.loses_power()
    with pytest.raises(MigrationUndecidedError):
        departure.stay()  # without a command of the portal
    getattr(one.driver, resume)(spec.uuid)
    assert one.reads(spec, 5)
    assert one.writes(spec, 6)
    two.volumes.check()  # it is back, and serves its volumes again
    assert not two.writes(spec, 9)


def test_a_third_host_keeps_a_disk_that_it_has_renamed_in_the_hand_over(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path
) -> None:
    """The server was evacuated there, and its disk is not open yet."""
    one, two = hosts
    one.launch(spec, base)
    departure, arrival, prepared = begin(spec, one, two)
    performed = departure.perform(prepared)
    third = PoolRootDisks(FakeDriver(), two.volumes, "shared", "three")
    assert third.adopt_disks(spec, None)
    with pytest.raises(VolumeNotFoundError):
        arrival.finish(performed)
    with pytest.raises(MigrationUndecidedError):
        departure.stay()
    two.driver.leave(spec.uuid)
    assert roots(one) == [disk_id(spec.uuid, "three")]


def test_a_disk_that_was_created_again_is_not_taken_over(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path
) -> None:
    """The lock of the deleted disk does not exclude the daemon of the new one."""
    one, two = hosts
    one.launch(spec, base)
    _departure, arrival, prepared = begin(spec, one, two)
    one.driver.destroy(spec.uuid)
    one.launch(spec, base)
    with pytest.raises(VolumeNotFoundError):
        arrival.finish(prepared)
    assert roots(two) == [disk_id(spec.uuid, "one")]
    assert one.writes(spec, 5)
    assert not two.writes(spec, 9)


def test_a_host_that_has_waited_for_a_disk_can_evacuate_it(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path
) -> None:
    one, two = hosts
    one.launch(spec, base)
    assert one.writes(spec, 5)
    begin(spec, one, two)
    one.loses_power()
    assert two.driver.adopt_disks(spec, None)
    two.start(spec, 2)
    assert two.reads(spec, 5)
    assert two.writes(spec, 6)


def test_a_resize_on_the_host_is_reverted_and_confirmed(
    hosts: tuple[Host, Host], spec: InstanceSpec, base: Path
) -> None:
    one, _ = hosts
    larger = replace(spec, flavor=replace(spec.flavor, root_gb=spec.flavor.root_gb + 1))
    driver = one.volumes.driver(one.driver.pool_id)
    one.launch(spec, base)
    assert one.writes(spec, 1)
    for attempt, confirmed in ((2, False), (4, True)):
        one.driver.resize(larger, attempt)
        one.driver.start(spec.uuid)
        assert one.writes(spec, attempt)
        assert driver.size(disk_id(spec.uuid, "one")) == larger.flavor.root_gb * GIB
        if confirmed:
            one.driver.confirm_resize(spec.uuid)
        else:
            one.driver.revert_resize(spec, attempt + 1)
            one.driver.start(spec.uuid)
        assert one.reads(spec, attempt if confirmed else 1)
        assert driver.snapshots(disk_id(spec.uuid, "one")) == []
