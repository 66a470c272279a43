"""Guests with root disks in a pool that two hosts can open, which are migrated while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.moves import LIVE_POOL_TRAIT
from compute_agent.contract.power import PowerState
from compute_agent.servers.root_disks import NOT_LIVE, PoolRootDisks, disk_id
from compute_agent.virt.errors import HostError, RetryableHostError, UnsupportedError
from compute_agent.virt.fake.driver import FakeDriver
from compute_agent.virt.live_migration import Arrival, MigrationOptions
from compute_agent.virt.migration_link.errors import DiskLostError
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.drivers.fake import FakeDriver as FakePool
from compute_agent.volumes.errors import PoolUnavailableError, VolumeInUseError
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.cast import make_spec

pytestmark = pytest.mark.slow


@dataclass
class Shared:
    """The knowledge of all hosts about the pool."""

    kept: dict[str, object]
    owner: dict[str, str] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)
    away: bool = False
    """Whether the pool does not answer."""


class JoinablePool(FakePool):
    """A simulated pool whose volumes two hosts can open, with real daemons that have no data."""

    daemons_needed = True
    can_join = True

    def __init__(self, settings: PoolSettings, shared: Shared) -> None:
        super().__init__(settings)
        self.shared, self._kept = shared, shared.kept

    def prepare(self) -> str:
        return str(self._kept["id"])

    def names(self) -> list[str]:
        if self.shared.away:
            raise RetryableHostError("The pool does not answer.")
        return list(self._volumes)

    def rename(self, volume_id: str, new_id: str) -> None:
        if new_id in self._volumes:
            raise VolumeInUseError("Another host has it.")
        self._volumes[new_id] = self._volumes.pop(volume_id) | {"previous": volume_id}
        if volume_id in self.shared.joined:
            self.shared.joined[new_id] = self.shared.joined.pop(volume_id)

    def previous_id(self, volume_id: str) -> str:
        return str(self._get(volume_id).get("previous", ""))

    def hold(self, volume_id: str, *, again: bool = False) -> list[int]:
        self._get(volume_id)
        if again and self.shared.owner.get(volume_id, self.settings.host) != self.settings.host:
            raise VolumeInUseError("Another host has it.")
        self.shared.owner[volume_id] = self.settings.host
        if not again:
            self.shared.joined.pop(volume_id, None)
        return []

    @contextmanager
    def joining(self, volume_id: str, new_id: str) -> Iterator[list[int]]:
        self._get(volume_id)
        yield []
        self.shared.joined[volume_id] = self.settings.host

    def acquire(self, volume_id: str, new_id: str) -> None:
        if self.shared.joined.get(volume_id) != self.settings.host:
            raise VolumeInUseError("Another host has it.")
        self.rename(volume_id, new_id)
        self.shared.owner[new_id] = self.shared.joined.pop(new_id)

    def is_joined(self, volume_id: str) -> bool:
        self._get(volume_id)
        return self.shared.joined.get(volume_id, self.settings.host) != self.settings.host

    def expel(self, volume_id: str) -> None:
        self._get(volume_id)
        self.shared.joined.pop(volume_id, None)
        self.shared.owner[volume_id] = self.settings.host


@dataclass
class Host:
    """A host with simulated guests."""

    name: str
    driver: PoolRootDisks
    volumes: Volumes
    guests: FakeDriver

    def opens(self, spec: InstanceSpec) -> bool:
        return self.volumes.daemons.runs(disk_id(spec.uuid, self.name))


@pytest.fixture
def shared() -> Shared:
    return Shared({"id": "00000000-0000-4000-8000-000000000001", "volumes": {}})


@pytest.fixture
def host(short: Path, shared: Shared) -> Iterator[Callable[[str], Host]]:
    made: list[Host] = []

    def make(name: str) -> Host:
        folder = short / name
        folder.mkdir()
        daemons = Daemons(folder / "run", folder / "sockets", Address(lambda: "127.0.0.1"), folder / "kept")
        pool = JoinablePool(PoolSettings("shared", "fake", str(folder), name), shared)
        volumes = Volumes([pool], daemons, Outside(object()))  # type: ignore[arg-type] # no image is fetched
        volumes.states()
        guests = FakeDriver()
        made.append(Host(name, PoolRootDisks(guests, volumes, "shared", name), volumes, guests))
        return made[-1]

    yield make
    for each in made:
        each.volumes.daemons.end_all()


@pytest.fixture
def one(host: Callable[[str], Host], spec: InstanceSpec, tmp_path: Path) -> Host:
    """The host of the running guest."""
    image = tmp_path / "image"
    image.write_bytes(b"image")
    result = host("one")
    result.driver.create_disk(spec, image)
    result.driver.define(spec, 1)
    result.driver.start(spec.uuid)
    return result


@pytest.fixture
def two(host: Callable[[str], Host]) -> Host:
    return host("two")


@pytest.fixture
def spec() -> InstanceSpec:
    return make_spec()


def roots(shared: Shared) -> list[str]:
    volumes = shared.kept["volumes"]
    assert isinstance(volumes, dict)
    return list(volumes)


def send(spec: InstanceSpec, source: Host, target: Host, attempt: int = 2, *, undecided: bool = False) -> Arrival:
    """Send the guest to the target, where it runs afterwards."""
    arrival = target.driver.arrival(spec, attempt)
    assert not arrival.needs_image()
    arrival.create_disks(None)
    departure = source.driver.departure(spec.uuid, MigrationOptions())
    begun = departure.begin(arrival.shape(departure.offer()))
    assert source.opens(spec)
    assert target.opens(spec)
    finished = arrival.finish(departure.perform(arrival.prepare(begun)))
    if not undecided:
        departure.leave(finished)
    return arrival


def test_both_hosts_have_the_disk_open_until_the_guest_runs_on_the_new_one(
    one: Host, two: Host, spec: InstanceSpec, shared: Shared
) -> None:
    assert LIVE_POOL_TRAIT in {*one.driver.capacity().traits} & {*two.driver.capacity().traits}
    arrival = send(spec, one, two)
    assert roots(shared) == [disk_id(spec.uuid, "one")]
    for _ in range(2):  # as after the death of the agent
        arrival.settle()
    assert roots(shared) == [disk_id(spec.uuid, "two")]
    assert shared.owner[disk_id(spec.uuid, "two")] == "two"
    one.driver.leave(spec.uuid)
    assert not one.opens(spec)
    assert two.opens(spec)
    assert two.guests.power_state(spec.uuid) == PowerState.RUNNING
    assert two.driver.leftovers() == one.driver.leftovers() == []
    two.volumes.daemons.disconnect(disk_id(spec.uuid, "two"))
    two.driver.stop(spec.uuid, 0)
    two.driver.start(spec.uuid)
    send(spec, two, one, 3).settle()
    assert roots(shared) == [disk_id(spec.uuid, "one")]


def test_a_failure_leaves_the_disk_to_the_first_host(one: Host, two: Host, spec: InstanceSpec, shared: Shared) -> None:
    arrival = two.driver.arrival(spec, 2)
    arrival.create_disks(None)
    departure = one.driver.departure(spec.uuid, MigrationOptions())
    arrival.shape(departure.offer())
    assert two.opens(spec)
    arrival.cancel()
    two.driver.leave(spec.uuid)
    departure.stay()
    assert roots(shared) == [disk_id(spec.uuid, "one")]
    assert not two.opens(spec)
    assert two.driver.leftovers() == []
    assert one.opens(spec)
    assert one.guests.power_state(spec.uuid) == PowerState.RUNNING


@pytest.mark.parametrize("settled", [False, True])
def test_a_guest_that_the_portal_keeps_has_its_disk_alone(
    one: Host, two: Host, spec: InstanceSpec, shared: Shared, *, settled: bool
) -> None:
    arrival = send(spec, one, two, undecided=True)
    if settled:
        arrival.settle()
    one.driver.keep(spec.uuid)
    assert roots(shared) == [disk_id(spec.uuid, "one")]
    assert shared.owner[disk_id(spec.uuid, "one")] == "one"
    assert one.opens(spec)
    assert one.guests.power_state(spec.uuid) == PowerState.RUNNING
    if not settled:
        with pytest.raises(DiskLostError):
            arrival.settle()  # too late
        assert roots(shared) == [disk_id(spec.uuid, "one")]


@pytest.mark.parametrize(
    "command",
    [
        lambda driver, spec: driver.start(spec.uuid),
        lambda driver, spec: driver.reboot(spec.uuid, hard=True, timeout=0),
        lambda driver, spec: driver.unpause(spec.uuid),
        lambda driver, spec: driver.resume(spec.uuid),
        lambda driver, spec: driver.define(spec, 3),
    ],
    ids=["start", "reboot", "unpause", "resume", "define"],
)
@pytest.mark.parametrize("settled", [False, True])
def test_a_guest_that_is_started_again_after_a_lost_migration_has_its_disk_alone(
    one: Host,
    two: Host,
    spec: InstanceSpec,
    shared: Shared,
    command: Callable[[PoolRootDisks, InstanceSpec], None],
    *,
    settled: bool,
) -> None:
    arrival = send(spec, one, two, undecided=True)
    if settled:
        arrival.settle()
    assert one.opens(spec)
    command(one.driver, spec)
    assert shared.joined == {}
    assert roots(shared) == [disk_id(spec.uuid, "one")]
    assert shared.owner[disk_id(spec.uuid, "one")] == "one"
    assert one.opens(spec)
    if not settled:
        with pytest.raises(DiskLostError):
            arrival.settle()
    assert roots(shared) == [disk_id(spec.uuid, "one")]


def test_a_disk_that_is_acquired_while_its_guest_is_kept_comes_back(
    one: Host, two: Host, spec: InstanceSpec, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival, expel = send(spec, one, two, undecided=True), JoinablePool.expel

    def late(pool: JoinablePool, volume_id: str) -> None:
        monkeypatch.setattr(JoinablePool, "expel", expel)
        arrival.settle()
        pool.expel(volume_id)

    monkeypatch.setattr(JoinablePool, "expel", late)
    one.driver.keep(spec.uuid)
    assert roots(shared) == [disk_id(spec.uuid, "one")]
    assert shared.owner[disk_id(spec.uuid, "one")] == "one"
    assert one.opens(spec)


def test_a_guest_that_runs_waits_for_a_pool_that_does_not_answer(
    one: Host, two: Host, spec: InstanceSpec, shared: Shared
) -> None:
    arrival = send(spec, one, two)
    shared.away = True
    with pytest.raises(HostError):
        arrival.settle()
    assert two.guests.power_state(spec.uuid) == PowerState.RUNNING
    shared.away = False
    arrival.settle()
    assert roots(shared) == [disk_id(spec.uuid, "two")]


def test_a_guest_whose_disk_was_deleted_has_lost_it(one: Host, two: Host, spec: InstanceSpec, shared: Shared) -> None:
    arrival = send(spec, one, two)
    one.driver.destroy(spec.uuid)
    assert roots(shared) == []
    with pytest.raises(DiskLostError, match="not in this host's pool"):
        arrival.settle()


def test_a_guest_without_a_disk_in_the_pool_does_not_wait_for_it(
    two: Host, spec: InstanceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: PoolRootDisks) -> str:
        raise PoolUnavailableError("The pool cannot be used.")

    two.guests.create_disk(spec, None)
    two.guests.define(spec, 1)
    monkeypatch.setattr(PoolRootDisks, "pool_id", property(away))
    for command in (two.driver.keep, two.driver.start, two.driver.pause, two.driver.unpause, two.driver.resume):
        command(spec.uuid)
    two.driver.reboot(spec.uuid, hard=True, timeout=0)
    assert two.guests.power_state(spec.uuid) == PowerState.RUNNING


def test_a_target_that_was_isolated_does_not_take_the_disk_of_an_evacuated_guest(
    one: Host, two: Host, host: Callable[[str], Host], spec: InstanceSpec, shared: Shared
) -> None:
    arrival, three = send(spec, one, two), host("three")
    assert three.driver.adopt_disks(spec, None)
    three.driver.define(spec, 3)
    with pytest.raises(DiskLostError):
        arrival.settle()
    two.driver.leave(spec.uuid)
    assert not two.opens(spec)
    assert roots(shared) == [disk_id(spec.uuid, "three")]
    assert shared.owner[disk_id(spec.uuid, "three")] == "three"


def test_a_target_with_an_old_disk_of_the_server_receives_nothing(
    one: Host, two: Host, spec: InstanceSpec, shared: Shared, tmp_path: Path
) -> None:
    two.driver.create_disk(spec, tmp_path / "image")
    arrival = two.driver.arrival(spec, 2)
    arrival.create_disks(None)
    departure = one.driver.departure(spec.uuid, MigrationOptions())
    with pytest.raises(HostError, match="several root disks"):
        arrival.shape(departure.offer())
    assert not two.opens(spec)
    assert sorted(roots(shared)) == sorted(disk_id(spec.uuid, each) for each in ("one", "two"))


def test_a_target_that_failed_after_it_took_the_disk_returns_it(
    one: Host, two: Host, spec: InstanceSpec, shared: Shared
) -> None:
    send(spec, one, two).settle()
    two.driver.leave(spec.uuid)
    assert roots(shared) == [disk_id(spec.uuid, "one")]


def test_a_pool_that_one_host_opens_keeps_a_running_guest(
    one: Host, spec: InstanceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JoinablePool, "can_join", False)
    assert LIVE_POOL_TRAIT not in one.driver.capacity().traits
    with pytest.raises(UnsupportedError, match=NOT_LIVE):
        one.driver.departure(spec.uuid, MigrationOptions())


def test_a_guest_with_a_file_is_copied_to_a_host_with_a_pool(two: Host, spec: InstanceSpec, tmp_path: Path) -> None:
    arrival = two.driver.arrival(spec, 2)
    assert arrival.needs_image()
    arrival.create_disks(tmp_path)
    assert two.guests.has_disk(spec.uuid)
    arrival.settle()
