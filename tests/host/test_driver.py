"""The libvirt driver keeps the contract of all drivers, with real QEMU behind it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.virt.driver import ComputeDriver
from compute_agent.virt.errors import ImageUnacceptableError
from compute_agent.virt.libvirt.paths import HostPaths
from tests.agent.driver_contract import DriverContract
from tests.host.cast import Wish
from tests.host.host_process import HostProcess, RemoteDriver
from tests.host.lab import Lab, make_lab, processes_naming, remove_lab
from tests.support.guest_image import GuestImage


@pytest.fixture(scope="module")
def host(lab: Lab, small: GuestImage) -> Iterator[HostProcess]:
    host = HostProcess(lab.settings, lab.machine.path, small.path)
    host.driver.init_host()
    yield host
    host.kill()


@pytest.fixture
def driver(host: HostProcess) -> Iterator[ComputeDriver]:
    yield RemoteDriver(host)
    for guest in host.driver.guests():
        host.driver.destroy(guest.uuid)
    host.listener = None


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


class TestLibvirtDriver(DriverContract):
    """The same promises as for simulated guests."""

    at_landing = {name for name in vars(DriverContract) if name.startswith("test_")} - {
        "test_a_crash_dump_needs_a_guest_that_runs",
        "test_a_host_can_be_initialised_again",
        "test_a_paused_guest_can_be_reset",
        "test_a_size_that_is_kept_can_be_made_larger_again",
        "test_a_snapshot_is_a_whole_disk_and_the_guest_stays_as_it_was",
        "test_a_snapshot_that_is_cancelled_leaves_no_file",
        "test_a_suspended_guest_can_be_reset_and_destroyed",
        "test_interfaces_come_and_go_while_the_guest_is_off",
        "test_power_changes_are_heard",
        "test_volumes_come_and_go_while_the_guest_is_off",
    } | {"test_a_snapshot_is_a_whole_disk_and_the_guest_stays_as_it_was[running]"}


def test_qemu_runs_under_an_account_of_its_own_that_reaches_no_more_than_it_needs(
    driver: ComputeDriver, lab: Lab, spec: InstanceSpec, base: Path
) -> None:
    DriverContract().launch(driver, spec, base)
    (process,) = (path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if guest_process(path, spec.uuid))
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    nobody = pwd.getpwnam("nobody")
    assert status["Uid"].split() == [str(nobody.pw_uid)] * 4
    assert status["Gid"].split() == [str(nobody.pw_gid)] * 4
    assert int(status["CapEff"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    # The state folder itself, and the folder that it lies in, are root's alone.
    for folder in (lab.settings.state_dir, lab.settings.state_dir.parent):
        assert folder.stat().st_mode & 0o777 == 0o700
    image = base.stat()
    assert (image.st_uid, image.st_gid, image.st_mode & 0o777) == (0, nobody.pw_gid, 0o440)
    folder = lab.settings.state_dir / "instances" / spec.uuid
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (0, 0o710)
    assert (folder / "disk.qcow2").stat().st_uid == nobody.pw_uid
    assert ((folder / "seed.iso").stat().st_uid, (folder / "seed.iso").stat().st_mode & 0o777) == (0, 0o440)


def guest_process(path: Path, uuid: str) -> bool:
    try:
        command = path.read_bytes()
    except OSError:
        return False
    return command.startswith(b"/usr/bin/qemu-system-x86_64") and uuid.encode() in command


def test_an_image_larger_than_the_flavors_disk_is_refused(
    driver: ComputeDriver, spec: InstanceSpec, tmp_path: Path
) -> None:
    large = tmp_path / "large.raw"
    with large.open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(ImageUnacceptableError, match="needs a disk of 2 GiB"):
        driver.create_disk(spec, large)


@pytest.mark.deep
def test_a_deep_state_folder_is_no_obstacle_to_sockets(tmp_path: Path, small: GuestImage, spec: InstanceSpec) -> None:
    lab = make_lab(tmp_path / ("deep" * 20), f"nvt-{os.getpid()}-deep")
    host = HostProcess(lab.settings, lab.machine.path, small.path)
    short = HostPaths(lab.settings.state_dir).short
    try:
        host.driver.init_host()
        DriverContract().launch(RemoteDriver(host), spec, host.images.get(spec.image, spec.uuid).path)
        assert (lab.settings.state_dir / "instances" / spec.uuid / "sockets/vnc.sock").is_socket()
        host.kill()
        assert any(spec.uuid in line for line in lab.clean())
        assert not short.exists()
        assert processes_naming(spec.uuid) == []
    finally:
        remove_lab(lab, tmp_path)
