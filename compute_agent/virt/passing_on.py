"""A driver that delegates to another driver. Subclasses override single methods."""

from contextlib import AbstractContextManager
from pathlib import Path

from compute_agent.contract.build import GuestDisk, InstanceSpec, PortRef
from compute_agent.contract.calls import Diagnostics, FileSystem
from compute_agent.contract.cpu import Cpu
from compute_agent.contract.firmware_state import FirmwareKind, FirmwareState
from compute_agent.contract.guest_disks import InspectedDisk
from compute_agent.contract.messages import Leftover
from compute_agent.contract.moves import GuestOrigin
from compute_agent.contract.power import PowerState
from compute_agent.virt.driver import (
    BootFiles,
    ComputeDriver,
    ConsoleChunk,
    Fetch,
    Guest,
    HostCapacity,
    HostUsage,
    PowerListener,
    SentGuest,
    Stopped,
    never,
)
from compute_agent.virt.live_migration import Arrival, Departure, MigrationOptions, Whereabouts


class PassingOn(ComputeDriver):
    """Delegates to ``inner``."""

    def __init__(self, inner: ComputeDriver) -> None:
        self.inner = inner

    def init_host(self) -> None:
        self.inner.init_host()

    def close(self) -> None:
        self.inner.close()

    def capacity(self) -> HostCapacity:
        return self.inner.capacity()

    def usage(self) -> HostUsage:
        return self.inner.usage()

    def guests(self) -> list[Guest]:
        return self.inner.guests()

    def leftovers(self) -> list[Leftover]:
        return self.inner.leftovers()

    def has_disk(self, uuid: str) -> bool:
        return self.inner.has_disk(uuid)

    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        self.inner.create_disk(spec, base, keep_ephemeral=keep_ephemeral)

    def create_boot_files(self, spec: InstanceSpec, files: BootFiles) -> None:
        self.inner.create_boot_files(spec, files)

    def create_seed(self, spec: InstanceSpec) -> None:
        self.inner.create_seed(spec)

    def define(self, spec: InstanceSpec, attempt: int) -> None:
        self.inner.define(spec, attempt)

    def start(self, uuid: str) -> None:
        self.inner.start(uuid)

    def wait_for_boot(self, uuid: str, timeout: float) -> PowerState:
        return self.inner.wait_for_boot(uuid, timeout)

    def stop(self, uuid: str, timeout: float) -> None:
        self.inner.stop(uuid, timeout)

    def reboot(self, uuid: str, *, hard: bool, timeout: float) -> None:
        self.inner.reboot(uuid, hard=hard, timeout=timeout)

    def destroy(self, uuid: str) -> None:
        self.inner.destroy(uuid)

    def leave(self, uuid: str) -> None:
        self.inner.leave(uuid)

    def adopt_disks(self, spec: InstanceSpec, base: Path | None) -> bool:
        return self.inner.adopt_disks(spec, base)

    def restore_left_disk(self, uuid: str) -> None:
        self.inner.restore_left_disk(uuid)

    def power_state(self, uuid: str) -> PowerState:
        return self.inner.power_state(uuid)

    def console_output(self, uuid: str, offset: int | None, max_bytes: int) -> ConsoleChunk:
        return self.inner.console_output(uuid, offset, max_bytes)

    def pause(self, uuid: str) -> None:
        self.inner.pause(uuid)

    def unpause(self, uuid: str) -> None:
        self.inner.unpause(uuid)

    def suspend(self, uuid: str) -> None:
        self.inner.suspend(uuid)

    def resume(self, uuid: str) -> None:
        self.inner.resume(uuid)

    def crash_dump(self, uuid: str) -> None:
        self.inner.crash_dump(uuid)

    def set_password(self, uuid: str, user: str, password: str) -> None:
        self.inner.set_password(uuid, user, password)

    def trim(self, uuid: str, timeout: float) -> None:
        self.inner.trim(uuid, timeout)

    def file_systems(self, uuid: str, timeout: float) -> list[FileSystem]:
        return self.inner.file_systems(uuid, timeout)

    def inspect_disk(self, uuid: str, serial: str, timeout: float) -> InspectedDisk:
        return self.inner.inspect_disk(uuid, serial, timeout)

    def mount_disk(self, uuid: str, serial: str, directory: str, timeout: float) -> None:
        self.inner.mount_disk(uuid, serial, directory, timeout)

    def extend_file_system(self, uuid: str, serial: str, timeout: float) -> None:
        self.inner.extend_file_system(uuid, serial, timeout)

    def uefi_variables(self, uuid: str) -> dict[FirmwareKind, bytes]:
        return self.inner.uefi_variables(uuid)

    def firmware_state(self, uuid: str) -> FirmwareState:
        return self.inner.firmware_state(uuid)

    def restore_firmware(self, uuid: str, state: FirmwareState) -> None:
        self.inner.restore_firmware(uuid, state)

    def frozen(self, uuid: str) -> AbstractContextManager[None]:
        return self.inner.frozen(uuid)

    def diagnostics(self, uuid: str) -> Diagnostics:
        return self.inner.diagnostics(uuid)

    def rescue(self, spec: InstanceSpec, attempt: int, base: Path | None, files: BootFiles) -> None:
        self.inner.rescue(spec, attempt, base, files)

    def unrescue(self, spec: InstanceSpec, attempt: int) -> None:
        self.inner.unrescue(spec, attempt)

    def resize(self, spec: InstanceSpec, attempt: int) -> None:
        self.inner.resize(spec, attempt)

    def confirm_resize(self, uuid: str) -> None:
        self.inner.confirm_resize(uuid)

    def revert_resize(self, spec: InstanceSpec, attempt: int) -> None:
        self.inner.revert_resize(spec, attempt)

    def check_may_leave(self, uuid: str) -> None:
        self.inner.check_may_leave(uuid)

    def disks_to_send(self, uuid: str) -> SentGuest:
        return self.inner.disks_to_send(uuid)

    def receive_disks(self, spec: InstanceSpec, base: Path | None, origin: GuestOrigin, fetch: Fetch) -> None:
        self.inner.receive_disks(spec, base, origin, fetch)

    def snapshot(self, uuid: str, target: Path, disk_format: str, stopped: Stopped = never) -> None:
        self.inner.snapshot(uuid, target, disk_format, stopped)

    def attach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        self.inner.attach_interface(spec, port)

    def detach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        self.inner.detach_interface(spec, port)

    def attach_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        self.inner.attach_volume(spec, disk)

    def detach_volume(self, spec: InstanceSpec, disk: GuestDisk, *, force: bool = False) -> None:
        self.inner.detach_volume(spec, disk, force=force)

    def refresh_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        self.inner.refresh_volume(spec, disk)

    def swap_volume(self, spec: InstanceSpec, old: GuestDisk, new: GuestDisk, stopped: Stopped = never) -> None:
        self.inner.swap_volume(spec, old, new, stopped)

    def volumes(self) -> dict[str, list[str]]:
        return self.inner.volumes()

    def attachments(self) -> dict[str, dict[str, str]]:
        return self.inner.attachments()

    def interfaces(self) -> dict[str, list[str]]:
        return self.inner.interfaces()

    def cpus(self) -> dict[str, Cpu]:
        return self.inner.cpus()

    def open_exports(self) -> set[str]:
        return self.inner.open_exports()

    def resume_after_error(self, uuid: str) -> bool:
        return self.inner.resume_after_error(uuid)

    def departure(self, uuid: str, options: MigrationOptions) -> Departure:
        return self.inner.departure(uuid, options)

    def arrival(self, spec: InstanceSpec, attempt: int) -> Arrival:
        return self.inner.arrival(spec, attempt)

    def whereabouts(self, uuid: str) -> Whereabouts:
        return self.inner.whereabouts(uuid)

    def keep(self, uuid: str) -> None:
        self.inner.keep(uuid)

    def control_migration(self, uuid: str, action: str) -> None:
        self.inner.control_migration(uuid, action)

    def console_socket(self, uuid: str, protocol: str) -> Path:
        return self.inner.console_socket(uuid, protocol)

    def on_power_change(self, listener: PowerListener) -> None:
        self.inner.on_power_change(listener)
