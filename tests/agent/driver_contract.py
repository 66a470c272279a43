"""What every driver promises (``compute_agent.virt.driver``), as tests that any driver can be held to.

A test module subclasses ``DriverContract`` and gives the fixtures ``driver`` (started, empty), ``spec`` and ``base``.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compute_agent.contract.build import GuestDisk, InstanceSpec, LocalDisk, RescueImage, VolumeConnection
from compute_agent.contract.firmware_state import FirmwareState
from compute_agent.contract.power import PowerState
from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES
from compute_agent.virt.driver import BootFiles, ComputeDriver
from compute_agent.virt.errors import (
    ImageUnacceptableError,
    InstanceNotFoundError,
    RetryableHostError,
    StoppedError,
    UnsupportedError,
)
from tests.agent.cast import make_spec

BOOT_TIMEOUT = 240.0
STOP_TIMEOUT = 1.0
NOBODY = "00000000-0000-4000-8000-00000000dead"
INTERFACE = make_spec(number=77).ports[0]
"""An interface that no guest has, on a bridge that need not be there."""
VOLUME, OTHER_VOLUME = (
    GuestDisk(
        id=f"0b000000-0000-4000-8000-{number:012d}",
        attachment_id=f"0a000000-0000-4000-8000-{number:012d}",
        size_gb=1,
        connection=VolumeConnection(
            export=f"0b000000-0000-4000-8000-{number:012d}.0a000000-0000-4000-8000-{number:012d}",
            address="192.0.2.1",
            port=10809,
            tls=True,
            tls_hostname="storage.example",
        ),
        device="vdb",
    )
    for number in (1, 2)
)
"""Volumes that no daemon exports: enough for guests that are off."""


def until(question: Callable[[], Any], what: str, patience: float = 240.0) -> Any:
    """Ask until the answer is true; fail after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while not (answer := question()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)
    return answer


def always() -> bool:
    """Tell long work to stop at once."""
    return True


class Listener:
    """Hears of power changes, from whatever thread they come."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heard: list[tuple[str, PowerState]] = []

    def __call__(self, uuid: str, state: PowerState) -> None:
        with self._changed:
            self._heard.append((uuid, state))
            self._changed.notify_all()

    def wait_for(self, uuid: str, state: PowerState) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: (uuid, state) in self._heard, 240.0)


class DriverContract:
    """The promises; ``spec`` is a fresh guest, ``base`` its image in the cache (None for a fake)."""

    attempt = 3

    def launch(self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None) -> None:
        """What the manager does between the network's steps."""
        driver.create_disk(spec, base)
        driver.create_seed(spec)
        driver.define(spec, self.attempt)
        driver.start(spec.uuid)
        assert driver.wait_for_boot(spec.uuid, BOOT_TIMEOUT) == PowerState.RUNNING

    @pytest.fixture
    def guest(self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None) -> str:
        """The uuid of a running guest."""
        self.launch(driver, spec, base)
        return spec.uuid

    def listed(self, driver: ComputeDriver, uuid: str) -> tuple[int, PowerState] | None:
        result = [(guest.attempt, guest.power_state) for guest in driver.guests() if guest.uuid == uuid]
        assert len(result) <= 1
        return result[0] if result else None

    def test_a_host_can_be_initialised_again(self, driver: ComputeDriver, guest: str) -> None:
        driver.init_host()
        assert self.listed(driver, guest) == (self.attempt, PowerState.RUNNING)

    def test_capacity_counts_what_guests_use(
        self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None
    ) -> None:
        before = driver.capacity()
        assert min(before.vcpus, before.memory_mb, before.disk_gb, before.hypervisor_version) > 0
        assert before.hypervisor_type
        self.launch(driver, spec, base)
        after = driver.capacity()
        assert after.running_vms == before.running_vms + 1
        assert after.vcpus_used == before.vcpus_used + spec.flavor.vcpus
        assert dataclasses.replace(after, cpu_info={}).vcpus == before.vcpus

    def test_a_defined_guest_is_stopped_and_carries_its_attempt(
        self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None
    ) -> None:
        driver.create_disk(spec, base)
        driver.create_seed(spec)
        driver.define(spec, self.attempt)
        assert self.listed(driver, spec.uuid) == (self.attempt, PowerState.SHUTDOWN)
        assert driver.power_state(spec.uuid) == PowerState.SHUTDOWN

    def test_every_building_step_can_be_repeated(
        self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None
    ) -> None:
        for _ in range(2):
            driver.create_disk(spec, base)
        for _ in range(2):
            driver.create_seed(spec)
        driver.define(spec, self.attempt - 1)
        driver.define(spec, self.attempt)
        for _ in range(2):
            driver.start(spec.uuid)
        for _ in range(2):
            assert driver.wait_for_boot(spec.uuid, BOOT_TIMEOUT) == PowerState.RUNNING
        assert self.listed(driver, spec.uuid) == (self.attempt, PowerState.RUNNING)

    def test_stopping_twice_and_starting_again(self, driver: ComputeDriver, guest: str) -> None:
        for _ in range(2):
            driver.stop(guest, STOP_TIMEOUT)
            assert driver.power_state(guest) == PowerState.SHUTDOWN
        driver.start(guest)
        assert driver.wait_for_boot(guest, BOOT_TIMEOUT) == PowerState.RUNNING
        assert self.listed(driver, guest) == (self.attempt, PowerState.RUNNING)

    @pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
    def test_a_rebooted_guest_runs(self, driver: ComputeDriver, guest: str, hard: bool) -> None:
        driver.reboot(guest, hard=hard, timeout=STOP_TIMEOUT)
        assert driver.wait_for_boot(guest, BOOT_TIMEOUT) == PowerState.RUNNING

    def test_pausing_twice_and_going_on(self, driver: ComputeDriver, guest: str) -> None:
        for _ in range(2):
            driver.pause(guest)
            assert driver.power_state(guest) == PowerState.PAUSED
        for _ in range(2):
            driver.unpause(guest)
            assert driver.power_state(guest) == PowerState.RUNNING
        driver.stop(guest, STOP_TIMEOUT)
        with pytest.raises(UnsupportedError):
            driver.pause(guest)

    def test_suspending_twice_and_resuming(self, driver: ComputeDriver, guest: str) -> None:
        for _ in range(2):
            driver.suspend(guest)
            assert self.listed(driver, guest) == (self.attempt, PowerState.SHUTDOWN)
        for _ in range(2):
            driver.resume(guest)
            assert driver.wait_for_boot(guest, BOOT_TIMEOUT) == PowerState.RUNNING

    def test_a_suspended_guest_can_be_reset_and_destroyed(self, driver: ComputeDriver, guest: str) -> None:
        driver.suspend(guest)
        driver.reboot(guest, hard=True, timeout=STOP_TIMEOUT)
        assert driver.power_state(guest) == PowerState.RUNNING
        driver.suspend(guest)
        driver.destroy(guest)
        assert self.listed(driver, guest) is None

    def test_a_paused_guest_can_be_reset(self, driver: ComputeDriver, guest: str) -> None:
        driver.pause(guest)
        driver.reboot(guest, hard=True, timeout=STOP_TIMEOUT)
        assert driver.power_state(guest) == PowerState.RUNNING

    def test_counters_fit_the_guest(self, driver: ComputeDriver, spec: InstanceSpec, guest: str) -> None:
        until(lambda: driver.diagnostics(guest).uptime is not None, "the event of the power-on")
        counters = driver.diagnostics(guest)
        assert (counters.power_state, counters.memory_mb, counters.config_drive) == (1, spec.flavor.memory_mb, True)
        assert [cpu.id for cpu in counters.cpus] == list(range(spec.flavor.vcpus))
        assert counters.disks[0].target == "vda"
        with pytest.raises(InstanceNotFoundError):
            driver.diagnostics(NOBODY)

    def test_file_systems_need_a_guest_that_runs(self, driver: ComputeDriver, guest: str) -> None:
        driver.stop(guest, STOP_TIMEOUT)
        with pytest.raises(UnsupportedError):
            driver.file_systems(guest, 1)

    def test_usage_has_the_running_guests(self, driver: ComputeDriver, guest: str) -> None:
        usage = driver.usage()
        values = dict(zip(GUEST_SERIES, usage.guests[guest], strict=True))
        assert (values["cpu"] or 0) >= 0
        assert (values["memory"] or 0) > 0
        assert len(usage.host) == len(HOST_SERIES)
        driver.stop(guest, STOP_TIMEOUT)
        assert guest not in driver.usage().guests

    def test_a_crash_dump_needs_a_guest_that_runs(self, driver: ComputeDriver, guest: str) -> None:
        driver.stop(guest, STOP_TIMEOUT)
        with pytest.raises(UnsupportedError):
            driver.crash_dump(guest)

    def test_interfaces_come_and_go_while_the_guest_is_off(
        self, driver: ComputeDriver, spec: InstanceSpec, guest: str
    ) -> None:
        driver.stop(guest, STOP_TIMEOUT)
        for _ in range(2):
            driver.attach_interface(spec, INTERFACE)
        first = [port.mac_address for port in spec.ports]
        assert driver.interfaces()[guest] == [*first, INTERFACE.mac_address]
        for _ in range(2):
            driver.detach_interface(spec, INTERFACE)
        assert driver.interfaces()[guest] == first
        assert driver.power_state(guest) == PowerState.SHUTDOWN
        driver.start(guest)
        assert driver.wait_for_boot(guest, BOOT_TIMEOUT) == PowerState.RUNNING
        assert INTERFACE.mac_address not in [interface.mac_address for interface in driver.diagnostics(guest).nics]
        nobody = msgspec.structs.replace(spec, uuid=NOBODY)
        driver.detach_interface(nobody, INTERFACE)
        with pytest.raises(InstanceNotFoundError):
            driver.attach_interface(nobody, INTERFACE)

    def test_a_running_guest_has_a_processor_that_the_host_offers(
        self, driver: ComputeDriver, spec: InstanceSpec, guest: str
    ) -> None:
        offered = driver.capacity().guest_cpu
        assert offered is not None
        assert offered.features == sorted(offered.features)
        assert driver.cpus()[guest].features == offered.features
        driver.stop(guest, STOP_TIMEOUT)
        assert guest not in driver.cpus()
        requested = msgspec.structs.replace(spec, cpu_features=offered.features[1:])
        driver.define(requested, self.attempt)
        driver.start(guest)
        assert set(driver.cpus()[guest].features) == set(offered.features[1:])

    def test_volumes_come_and_go_while_the_guest_is_off(
        self, driver: ComputeDriver, spec: InstanceSpec, guest: str
    ) -> None:
        assert driver.volumes()[guest] == []
        driver.stop(guest, STOP_TIMEOUT)
        for _ in range(2):
            driver.attach_volume(spec, VOLUME)
        assert driver.volumes()[guest] == [VOLUME.id]
        assert driver.attachments()[guest] == {VOLUME.id: VOLUME.attachment_id}
        grown = msgspec.structs.replace(VOLUME, size_gb=2, iotune={"total_iops_sec": 100})
        for _ in range(2):
            driver.refresh_volume(spec, grown)
        with pytest.raises(UnsupportedError):
            driver.swap_volume(spec, VOLUME, OTHER_VOLUME)
        assert driver.volumes()[guest] == [VOLUME.id]
        assert not driver.resume_after_error(guest)
        for force in (False, False, True):
            driver.detach_volume(spec, VOLUME, force=force)
        assert (driver.volumes()[guest], driver.attachments()[guest]) == ([], {})
        with pytest.raises(RetryableHostError):
            driver.refresh_volume(spec, VOLUME)
        driver.start(guest)
        assert driver.wait_for_boot(guest, BOOT_TIMEOUT) == PowerState.RUNNING
        with pytest.raises(RetryableHostError):
            driver.swap_volume(spec, VOLUME, OTHER_VOLUME)

    def test_a_guest_is_defined_with_its_volumes_and_boots_from_one(
        self, driver: ComputeDriver, spec: InstanceSpec
    ) -> None:
        root = msgspec.structs.replace(VOLUME, device="vda", boot_index=0)
        data = msgspec.structs.replace(OTHER_VOLUME, bus="scsi", device="sda", read_only=True, shareable=True)
        image = msgspec.structs.replace(spec.image, id="")
        spec = msgspec.structs.replace(spec, image=image, volumes=[root, data], local_disks=[])
        for _ in range(2):
            driver.create_disk(spec, None)
            driver.create_seed(spec)
            driver.define(spec, self.attempt)
        assert not driver.has_disk(spec.uuid)
        assert sorted(driver.volumes()[spec.uuid]) == sorted([root.id, data.id])
        larger = msgspec.structs.replace(self.larger(spec), local_disks=[LocalDisk(size_mb=8, swap=True)])
        for _ in range(2):
            driver.resize(larger, self.attempt)
        driver.revert_resize(spec, self.attempt)
        assert sorted(driver.volumes()[spec.uuid]) == sorted([root.id, data.id])
        driver.detach_volume(spec, data)
        assert driver.volumes()[spec.uuid] == [root.id]
        driver.destroy(spec.uuid)
        assert spec.uuid not in driver.volumes()
        assert driver.leftovers() == []

    def test_volumes_of_a_guest_that_is_not_here(self, driver: ComputeDriver, spec: InstanceSpec) -> None:
        nobody = msgspec.structs.replace(spec, uuid=NOBODY)
        driver.detach_volume(nobody, VOLUME, force=True)
        assert not driver.resume_after_error(NOBODY)
        for change in (
            lambda: driver.attach_volume(nobody, VOLUME),
            lambda: driver.refresh_volume(nobody, VOLUME),
            lambda: driver.swap_volume(nobody, VOLUME, OTHER_VOLUME),
        ):
            with pytest.raises(InstanceNotFoundError):
                change()

    @pytest.mark.parametrize("state", ["running", "paused", "suspended", "stopped"])
    def test_a_snapshot_is_a_whole_disk_and_the_guest_stays_as_it_was(
        self, driver: ComputeDriver, spec: InstanceSpec, guest: str, copies: Path, state: str
    ) -> None:
        leave = {
            "running": lambda: None,
            "paused": lambda: driver.pause(guest),
            "suspended": lambda: driver.suspend(guest),
            "stopped": lambda: driver.stop(guest, STOP_TIMEOUT),
        }
        leave[state]()
        before = driver.power_state(guest)
        target = copies / "copy"
        target.write_bytes(b"left by an earlier run")
        driver.snapshot(guest, target, "qcow2")
        head = target.read_bytes()[:32]
        assert (head[:4], int.from_bytes(head[8:16]), int.from_bytes(head[24:32])) == (
            b"QFI\xfb",
            0,  # nothing lies under it
            spec.flavor.root_gb << 30,
        )
        driver.snapshot(guest, target, "raw")
        assert target.stat().st_size == spec.flavor.root_gb << 30
        assert driver.power_state(guest) == before

    def test_firmware_is_read_from_a_stopped_guest_alone(self, driver: ComputeDriver, guest: str) -> None:
        assert driver.uefi_variables(guest) == {}
        with pytest.raises(UnsupportedError):
            driver.firmware_state(guest)
        driver.stop(guest, STOP_TIMEOUT)
        assert driver.firmware_state(guest) == FirmwareState()

    def test_restored_firmware_is_that_of_the_guest(
        self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None
    ) -> None:
        driver.create_disk(spec, base)
        for content in (b"first", b"second"):
            driver.restore_firmware(spec.uuid, FirmwareState(variables={"uefi": content}))
        driver.create_seed(spec)
        driver.define(spec, self.attempt)
        assert driver.uefi_variables(spec.uuid) == {"uefi": b"second"}
        assert driver.firmware_state(spec.uuid).variables == {"uefi": b"second"}

    def test_a_snapshot_that_is_cancelled_leaves_no_file(self, driver: ComputeDriver, guest: str, copies: Path) -> None:
        target = copies / "copy"
        with pytest.raises(StoppedError):
            driver.snapshot(guest, target, "qcow2", always)
        driver.stop(guest, STOP_TIMEOUT)
        with pytest.raises(StoppedError):
            driver.snapshot(guest, target, "qcow2", always)
        assert not target.exists()
        with pytest.raises(InstanceNotFoundError):
            driver.snapshot(NOBODY, target, "qcow2")

    def test_rescuing_twice_and_going_back_twice(
        self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None, guest: str
    ) -> None:
        rescued = msgspec.structs.replace(spec, rescue=RescueImage(image=spec.image))
        for _ in range(2):
            driver.stop(guest, 0)
            driver.rescue(rescued, self.attempt, base, BootFiles())
            assert self.listed(driver, guest) == (self.attempt, PowerState.SHUTDOWN)
            driver.start(guest)
            assert driver.wait_for_boot(guest, BOOT_TIMEOUT) == PowerState.RUNNING
        for _ in range(2):
            driver.unrescue(spec, self.attempt)
            assert self.listed(driver, guest) == (self.attempt, PowerState.SHUTDOWN)
        driver.start(guest)
        assert driver.wait_for_boot(guest, BOOT_TIMEOUT) == PowerState.RUNNING

    def test_a_rescued_guest_is_destroyed(
        self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None, guest: str
    ) -> None:
        driver.stop(guest, 0)
        rescued = msgspec.structs.replace(spec, rescue=RescueImage(image=spec.image))
        driver.rescue(rescued, self.attempt, base, BootFiles())
        driver.destroy(guest)
        assert self.listed(driver, guest) is None

    def test_nobody_is_not_rescued(self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None) -> None:
        with pytest.raises(InstanceNotFoundError):
            driver.rescue(msgspec.structs.replace(spec, uuid=NOBODY), self.attempt, base, BootFiles())
        assert self.listed(driver, NOBODY) is None

    def test_a_guest_that_runs_is_made_anew(
        self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None, guest: str
    ) -> None:
        driver.create_disk(spec, base, keep_ephemeral=True)
        driver.create_boot_files(spec, BootFiles())
        driver.create_seed(spec)
        driver.define(spec, self.attempt)
        assert self.listed(driver, guest) == (self.attempt, PowerState.SHUTDOWN)
        driver.start(guest)
        assert driver.wait_for_boot(guest, BOOT_TIMEOUT) == PowerState.RUNNING

    def test_destroying_leaves_nothing_and_can_be_repeated(self, driver: ComputeDriver, guest: str) -> None:
        for _ in range(2):
            driver.destroy(guest)
            assert self.listed(driver, guest) is None
        with pytest.raises(InstanceNotFoundError):
            driver.power_state(guest)

    def test_destroying_what_never_was_succeeds(self, driver: ComputeDriver) -> None:
        driver.destroy(NOBODY)
        assert self.listed(driver, NOBODY) is None

    def test_an_unknown_guest_is_reported_as_unknown(self, driver: ComputeDriver) -> None:
        for question in (
            lambda: driver.power_state(NOBODY),
            lambda: driver.start(NOBODY),
            lambda: driver.console_output(NOBODY, None, 100),
            lambda: driver.uefi_variables(NOBODY),
            lambda: driver.firmware_state(NOBODY),
        ):
            with pytest.raises(InstanceNotFoundError):
                question()

    def test_power_changes_are_heard(self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None) -> None:
        listener = Listener()
        driver.on_power_change(listener)
        self.launch(driver, spec, base)
        assert listener.wait_for(spec.uuid, PowerState.RUNNING)
        driver.stop(spec.uuid, STOP_TIMEOUT)
        assert listener.wait_for(spec.uuid, PowerState.SHUTDOWN)

    def test_the_console_log_is_read_in_pieces_that_fit_together(self, driver: ComputeDriver, guest: str) -> None:
        until(lambda: driver.console_output(guest, None, 1_000_000).end > 40, "the guest writes to its console")
        whole = driver.console_output(guest, 0, 1_000_000)
        assert (whole.start, whole.end) == (0, len(whole.data))
        first = driver.console_output(guest, 0, 10)
        second = driver.console_output(guest, first.end, 10)
        assert first.data + second.data == whole.data[:20]
        assert (first.start, first.end, second.start, second.end) == (0, 10, 10, 20)
        last = driver.console_output(guest, None, 5)
        assert len(last.data) == 5
        assert last.end - last.start == 5
        assert last.end >= whole.end

    def test_another_guest_is_left_alone(self, driver: ComputeDriver, guest: str, spec: InstanceSpec) -> None:
        other = msgspec.structs.replace(spec, uuid=NOBODY)
        driver.destroy(other.uuid)
        assert self.listed(driver, guest) == (self.attempt, PowerState.RUNNING)

    @pytest.fixture
    def stopped(self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None) -> InstanceSpec:
        """A guest that was never started."""
        driver.create_disk(spec, base)
        driver.create_seed(spec)
        driver.define(spec, self.attempt)
        return spec

    @staticmethod
    def larger(spec: InstanceSpec, root_gb: int = 2) -> InstanceSpec:
        flavor = msgspec.structs.replace(spec.flavor, vcpus=3, memory_mb=160, root_gb=root_gb, swap_mb=8)
        return msgspec.structs.replace(spec, flavor=flavor)

    @staticmethod
    def memory(driver: ComputeDriver, spec: InstanceSpec) -> int | None:
        return driver.diagnostics(spec.uuid).memory_mb

    def test_a_disk_without_a_domain_is_left_over_until_it_is_destroyed(
        self, driver: ComputeDriver, spec: InstanceSpec, base: Path | None
    ) -> None:
        assert not driver.has_disk(spec.uuid)
        driver.create_disk(spec, base)
        assert driver.has_disk(spec.uuid)
        assert {each.subject_id for each in driver.leftovers()} == {spec.uuid}
        driver.define(spec, 1)
        assert driver.leftovers() == []
        driver.destroy(spec.uuid)
        assert driver.leftovers() == []
        assert not driver.has_disk(spec.uuid)

    def test_a_resized_guest_has_its_new_size_until_that_is_given_up(
        self, driver: ComputeDriver, stopped: InstanceSpec
    ) -> None:
        for _ in range(2):
            driver.resize(self.larger(stopped), self.attempt)
        assert self.listed(driver, stopped.uuid) == (self.attempt, PowerState.SHUTDOWN)
        assert self.memory(driver, stopped) == 160
        for _ in range(2):
            driver.revert_resize(stopped, self.attempt)
        assert self.listed(driver, stopped.uuid) == (self.attempt, PowerState.SHUTDOWN)
        assert self.memory(driver, stopped) == stopped.flavor.memory_mb

    def test_a_size_that_is_kept_can_be_made_larger_again(self, driver: ComputeDriver, stopped: InstanceSpec) -> None:
        driver.confirm_resize(stopped.uuid)
        for root_gb in (2, 3):
            driver.resize(self.larger(stopped, root_gb), self.attempt)
            for _ in range(2):
                driver.confirm_resize(stopped.uuid)
        with pytest.raises(ImageUnacceptableError, match="shrink"):
            driver.resize(self.larger(stopped), self.attempt)
        driver.revert_resize(self.larger(stopped, 3), self.attempt)
        assert self.memory(driver, stopped) == 160

    def test_no_disk_shrinks(self, driver: ComputeDriver, stopped: InstanceSpec) -> None:
        driver.resize(self.larger(stopped), self.attempt)
        driver.confirm_resize(stopped.uuid)
        with pytest.raises(ImageUnacceptableError, match="shrink"):
            driver.resize(stopped, self.attempt)

    def test_a_guest_that_is_not_here_is_not_resized(self, driver: ComputeDriver, spec: InstanceSpec) -> None:
        with pytest.raises(InstanceNotFoundError):
            driver.resize(spec, self.attempt)

    def test_destroying_a_resized_guest_leaves_nothing(self, driver: ComputeDriver, stopped: InstanceSpec) -> None:
        driver.resize(self.larger(stopped), self.attempt)
        driver.destroy(stopped.uuid)
        assert self.listed(driver, stopped.uuid) is None
