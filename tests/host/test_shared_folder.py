"""Guests whose root disks are in a folder that two hosts share, on real QEMU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.moves import GuestOrigin
from compute_agent.contract.power import PowerState
from compute_agent.servers.root_disks import KIND, disk_id
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import ComputeDriver
from compute_agent.virt.errors import HostError
from tests.agent.driver_contract import DriverContract
from tests.host.cast import Wish
from tests.host.host_process import HostProcess, RemoteDriver
from tests.host.lab import Lab
from tests.support.guest_image import GuestImage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def settings(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> AgentSettings:
    lab.machine.run("ip", "link", "set", "lo", "up")
    folder = tmp_path_factory.mktemp("shared")
    return changed(lab.settings, netns=None, volume_pools={"shared": f"dir:{folder}"}, root_disks="shared")


@pytest.fixture(scope="module")
def host(lab: Lab, small: GuestImage, settings: AgentSettings) -> Iterator[HostProcess]:
    host = HostProcess(settings, lab.machine.path, small.path)
    host.driver.init_host()
    yield host
    host.kill()


@pytest.fixture
def driver(host: HostProcess) -> Iterator[ComputeDriver]:
    yield RemoteDriver(host)
    clean(host)
    host.listener = None


def clean(host: HostProcess) -> None:
    """Leave no guest on the host, and none of its root disks in the pool."""
    lost = [left.subject_id for left in host.driver.leftovers() if left.kind in {KIND, "folder"}]
    for uuid in [guest.uuid for guest in host.driver.guests()] + lost:
        host.driver.destroy(uuid)


@pytest.fixture
def other(lab: Lab, small: GuestImage, settings: AgentSettings, tmp_path: Path) -> Iterator[ComputeDriver]:
    """Another host with the same folder."""
    host = HostProcess(changed(settings, host="other", state_dir=tmp_path / "other"), lab.machine.path, small.path)
    host.driver.init_host()
    yield RemoteDriver(host)
    clean(host)
    host.kill()


@pytest.fixture
def spec(small: GuestImage) -> InstanceSpec:
    """A guest without an interface: its network is not the driver's business."""
    return replace(Wish(1, image=small.ref).spec(), ports=[])


@pytest.fixture
def base(host: HostProcess, spec: InstanceSpec) -> Path:
    return host.images.get(spec.image, spec.uuid).path


@pytest.fixture
def copies(lab: Lab) -> Path:
    return lab.settings.state_dir / "outgoing"


class TestRootDisksInFolder(DriverContract):
    """The same promises as for disks that are files of the host."""

    at_landing = {"test_every_building_step_can_be_repeated"}


def no_fetch(*_: object) -> None:
    """Copy no disk: those in the pool stay there."""
    pytest.fail("Nothing is copied.")


def roots(settings: AgentSettings) -> list[str]:
    folder = Path(settings.volume_pools["shared"].partition(":")[2]) / "volumes"
    return sorted(path.name for path in folder.iterdir())


def start(driver: ComputeDriver, spec: InstanceSpec, attempt: int) -> None:
    driver.create_seed(spec)
    driver.define(spec, attempt)
    driver.start(spec.uuid)
    assert driver.power_state(spec.uuid) == PowerState.RUNNING


def test_a_guest_moves_and_is_evacuated_without_a_copy(
    driver: ComputeDriver, other: ComputeDriver, settings: AgentSettings, spec: InstanceSpec, base: Path
) -> None:
    here, there = (disk_id(spec.uuid, name) for name in (settings.host, "other"))
    DriverContract().launch(driver, spec, base)
    with pytest.raises(HostError):
        other.adopt_disks(spec, None)  # the guest runs
    assert roots(settings) == [here]
    driver.stop(spec.uuid, 0)
    sent = driver.disks_to_send(spec.uuid)
    other.receive_disks(spec, None, GuestOrigin(root_pool=sent.root_pool), no_fetch)
    start(other, spec, 2)
    driver.leave(spec.uuid)
    assert roots(settings) == [there]
    other.stop(spec.uuid, 0)
    other.disks_to_send(spec.uuid)  # ends the daemon, as the death of the host does
    assert driver.adopt_disks(spec, None)
    start(driver, spec, 3)
    assert roots(settings) == [here]
    other.leave(spec.uuid)
    assert driver.power_state(spec.uuid) == PowerState.RUNNING
    driver.destroy(spec.uuid)
    assert roots(settings) == []
