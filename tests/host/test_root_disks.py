"""Guests whose root disks lie in a pool of Ceph, on real QEMU: the contract of all drivers, and what is the pool's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.moves import GuestOrigin, root_pool_trait
from compute_agent.contract.power import PowerState
from compute_agent.servers.root_disks import KIND, disk_id
from compute_agent.settings import AgentSettings
from compute_agent.start import volume_cleanup
from compute_agent.virt.driver import ComputeDriver
from tests.agent.driver_contract import DriverContract
from tests.host.cast import Wish
from tests.host.host_process import HostProcess, RemoteDriver
from tests.host.lab import Lab
from tests.support.ceph import CephForTests, ceph_in
from tests.support.guest_image import GuestImage

pytestmark = [pytest.mark.ceph, pytest.mark.slow]


@pytest.fixture(scope="module")
def ceph(lab: Lab) -> Iterator[CephForTests]:
    lab.machine.run("ip", "link", "set", "lo", "up")
    with ceph_in(lab.machine.path, "127.0.0.1") as ceph:
        yield ceph


@pytest.fixture(scope="module")
def settings(lab: Lab, ceph: CephForTests) -> AgentSettings:
    pools = {"ceph": f"rbd:{ceph.pool}?conf={ceph.conf}&id={ceph.client}"}
    return changed(lab.settings, netns=None, volume_pools=pools, root_disks="ceph")


@pytest.fixture(scope="module")
def host(lab: Lab, small: GuestImage, settings: AgentSettings) -> Iterator[HostProcess]:
    host = HostProcess(settings, lab.machine.path, small.path)
    host.driver.init_host()
    yield host
    host.kill()


@pytest.fixture
def driver(host: HostProcess, lab: Lab, ceph: CephForTests) -> Iterator[ComputeDriver]:
    yield RemoteDriver(host)
    clean(host, lab, ceph)
    host.listener = None


def clean(host: HostProcess, lab: Lab, ceph: CephForTests) -> None:
    """Leave no guest on the host, and no root disk in the pool."""
    lost = [left.subject_id for left in host.driver.leftovers() if left.kind in {KIND, "folder"}]
    for uuid in [guest.uuid for guest in host.driver.guests()] + lost:
        host.driver.destroy(uuid)
    for name in images(lab, ceph):
        rbd(lab, ceph, "snap", "purge", f"{ceph.pool}/{name}")
        rbd(lab, ceph, "rm", f"{ceph.pool}/{name}")


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


def rbd(lab: Lab, ceph: CephForTests, *words: str) -> str:
    return lab.machine.run("rbd", "--conf", str(ceph.conf), "--id", ceph.client, *words)


def images(lab: Lab, ceph: CephForTests) -> list[str]:
    """What is in the pool of servers."""
    return [line for line in rbd(lab, ceph, "ls", ceph.pool).split() if "root-" in line]


class TestPoolRootDisks(DriverContract):
    """The same promises as for disks that are files."""

    at_landing = {"test_every_building_step_can_be_repeated"}


def test_a_root_disk_is_a_clone_in_the_pool_and_goes_with_its_guest(
    driver: ComputeDriver, lab: Lab, ceph: CephForTests, spec: InstanceSpec, base: Path
) -> None:
    DriverContract().launch(driver, spec, base)
    assert images(lab, ceph) == [f"volume-{disk_id(spec.uuid, lab.settings.host)}"]
    assert driver.volumes()[spec.uuid] == []
    assert driver.leftovers() == []
    assert not driver.needs_image(spec)
    driver.destroy(spec.uuid)
    assert images(lab, ceph) == []
    driver.create_disk(spec, None)  # of the image that the pool has
    (left,) = driver.leftovers()[1:]
    assert (left.kind, left.subject_id) == (KIND, spec.uuid)
    driver.destroy(spec.uuid)
    assert driver.leftovers() == []


def test_what_an_agent_has_in_the_pool_goes_when_it_is_cleaned_away(
    driver: ComputeDriver, settings: AgentSettings, lab: Lab, ceph: CephForTests, spec: InstanceSpec, base: Path
) -> None:
    driver.create_disk(spec, base)
    other = disk_id(spec.uuid, "another")
    rbd(lab, ceph, "create", f"{ceph.pool}/volume-{other}", "-s1")
    assert lab.machine.do(lambda: volume_cleanup.remove_everything(settings)) == [
        f"the root disk {disk_id(spec.uuid, settings.host)}"
    ]
    assert images(lab, ceph) == [f"volume-{other}"]


def test_a_cd_lies_on_the_host_beside_an_empty_disk_in_the_pool(
    driver: ComputeDriver, settings: AgentSettings, lab: Lab, ceph: CephForTests, spec: InstanceSpec, base: Path
) -> None:
    spec = replace(spec, image=replace(spec.image, disk_format="iso"))
    assert driver.needs_image(spec)
    DriverContract().launch(driver, spec, base)
    name = f"volume-{disk_id(spec.uuid, lab.settings.host)}"
    assert [each for each in images(lab, ceph) if spec.uuid in each] == [name]
    assert driver.needs_image(spec)
    folder = settings.state_dir / "instances" / spec.uuid
    assert {path.name for path in folder.glob("*.qcow2")} == {"cd.qcow2"}
    (used,) = json.loads(rbd(lab, ceph, "du", f"{ceph.pool}/{name}", "--format", "json"))["images"]
    assert (used["provisioned_size"], used["used_size"]) == (spec.flavor.root_gb << 30, 0)


# ----- moves ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def other(lab: Lab, small: GuestImage, settings: AgentSettings, tmp_path: Path) -> Iterator[ComputeDriver]:
    """Another host with the same pool."""
    host = HostProcess(changed(settings, host="other", state_dir=tmp_path / "other"), lab.machine.path, small.path)
    host.driver.init_host()
    yield RemoteDriver(host)
    for guest in host.driver.guests():
        host.driver.destroy(guest.uuid)
    host.kill()


def no_fetch(*_: object) -> None:
    """Copy no disk: those in the pool stay there."""
    pytest.fail("Nothing is copied.")


def start(driver: ComputeDriver, spec: InstanceSpec, attempt: int) -> None:
    driver.create_seed(spec)
    driver.define(spec, attempt)
    driver.start(spec.uuid)
    assert driver.power_state(spec.uuid) == PowerState.RUNNING


def info(lab: Lab, ceph: CephForTests, name: str) -> tuple[str, int, list[str]]:
    """The internal id of an image, its size in GiB, and its snapshots."""
    result = json.loads(rbd(lab, ceph, "info", f"{ceph.pool}/{name}", "--format", "json"))
    listed = json.loads(rbd(lab, ceph, "snap", "ls", f"{ceph.pool}/{name}", "--format", "json"))
    return result["id"], result["size"] >> 30, [each["name"] for each in listed]


def test_a_stopped_guest_moves_without_a_copy_and_returns_as_it_was(
    driver: ComputeDriver, other: ComputeDriver, lab: Lab, ceph: CephForTests, spec: InstanceSpec, base: Path
) -> None:
    here, there = (f"volume-{disk_id(spec.uuid, name)}" for name in (lab.settings.host, "other"))
    size = spec.flavor.root_gb
    larger = replace(spec, flavor=replace(spec.flavor, root_gb=size + 1))
    DriverContract().launch(driver, spec, base)
    number = info(lab, ceph, here)[0]

    def move() -> None:
        driver.stop(spec.uuid, 0)
        driver.check_may_leave(spec.uuid)
        sent = driver.disks_to_send(spec.uuid)
        assert sent.files == ()
        for _ in range(2):  # as after the death of the agent
            other.receive_disks(larger, None, GuestOrigin(root_pool=sent.root_pool), no_fetch)
        assert root_pool_trait(sent.root_pool) in {*driver.capacity().traits} & {*other.capacity().traits}
        start(other, larger, 2)
        assert images(lab, ceph) == [there]
        assert info(lab, ceph, there)[:2] == (number, size + 1)
        assert [left.kind for left in driver.leftovers()] == []

    move()
    other.leave(spec.uuid)
    assert images(lab, ceph) == [here]
    driver.restore_left_disk(spec.uuid)
    assert info(lab, ceph, here) == (number, size, [])
    start(driver, spec, 3)
    move()
    driver.leave(spec.uuid)
    assert images(lab, ceph) == [there]
    assert info(lab, ceph, there) == (number, size + 1, [])
    other.destroy(spec.uuid)
    assert images(lab, ceph) == []


@pytest.mark.deep
def test_an_evacuated_guest_has_its_disk_and_the_host_that_it_left_writes_nothing(
    driver: ComputeDriver, other: ComputeDriver, lab: Lab, ceph: CephForTests, spec: InstanceSpec, base: Path
) -> None:
    here, there = (f"volume-{disk_id(spec.uuid, name)}" for name in (lab.settings.host, "other"))
    assert not other.adopt_disks(spec, None)
    DriverContract().launch(driver, spec, base)
    number = info(lab, ceph, here)[0]

    def clients(name: str) -> set[str]:
        status = json.loads(rbd(lab, ceph, "status", f"{ceph.pool}/{name}", "--format", "json"))
        return {each["address"] for each in status["watchers"]}

    cut_off = clients(here)
    assert other.adopt_disks(spec, None)
    start(other, spec, 2)
    assert images(lab, ceph) == [there]
    assert info(lab, ceph, there)[0] == number
    blocked = lab.machine.run("ceph", "--conf", str(ceph.conf), "osd", "blocklist", "ls")
    assert cut_off
    assert all(each in blocked for each in cut_off)
    driver.leave(spec.uuid)  # it is back
    assert images(lab, ceph) == [there]
    assert clients(there)
    other.leave(spec.uuid)  # the evacuation has failed
    assert images(lab, ceph) == [here]
    driver.destroy(spec.uuid)
    assert images(lab, ceph) == []
