"""Power operations, and requests to the guest agent: set a password, trim disks, list file systems."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import libvirt

from compute_agent.contract.calls import MOST_FILE_SYSTEMS, FileSystem
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import RetryableHostError, UnsupportedError
from compute_agent.virt.libvirt import volume_table
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.domains import Domains

log = logging.getLogger(__name__)

OFF = frozenset({PowerState.SHUTDOWN, PowerState.CRASHED})
PRESS_AGAIN = 5.0
"""Seconds after which the power button is pressed again, as a guest that is still starting ignores it."""
PASSWORD_SECONDS = 60.0
"""Seconds in which the guest agent has to set a password."""
ERROR_STATE = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR]
_NO_AGENT = {
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    libvirt.VIR_ERR_AGENT_UNSYNCED,
    libvirt.VIR_ERR_OPERATION_INVALID,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
    libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
}

LONGEST_PATH = 255
LONGEST_KIND = 32
MOST_DISKS = 16
"""Maximum number of disks of one file system."""


class PowerOperations(Domains):
    """Starting, stopping, pausing, saving and interrupting a guest."""

    def start(self, uuid: str) -> None:
        self._start(uuid)

    def _start(self, uuid: str, flags: int = 0) -> None:
        domain = self._domain(uuid)
        self._states.know(uuid, self._state(domain))
        if not domain.isActive():
            self._paths.instance(uuid).hand_over()
            self._start_tpm(uuid, domain)
            if not flags & libvirt.VIR_DOMAIN_START_FORCE_BOOT and domain.hasManagedSaveImage():
                with translated("bring the saved guest to its volumes"):
                    volume_table.follow_definition(domain)
        try:
            domain.createWithFlags(flags)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID and domain.isActive():
                return
            with translated("start the guest"):
                raise

    def _start_tpm(self, uuid: str, domain: Any) -> None:
        mark = self._mark(domain)
        if mark is not None and mark.tpm_version:
            self._tpm(uuid).start(mark.tpm_version, self._paths.account)

    def wait_for_boot(self, uuid: str, timeout: float) -> PowerState:
        # First the current state, then events: an event in between is already recorded.
        if self._state(self._domain(uuid)) is PowerState.RUNNING:
            return PowerState.RUNNING
        state = self._states.wait(uuid, {PowerState.RUNNING, PowerState.CRASHED}, timeout)
        if state is not PowerState.RUNNING:
            happened = "stopped while it was starting" if state in OFF else "did not run in time"
            raise RetryableHostError(
                f"The guest {happened}.", detail=f"power state {state!r} after at most {timeout} s"
            )
        return state

    def stop(self, uuid: str, timeout: float) -> None:
        domain = self._domain(uuid)
        if not self._shut_down(uuid, domain, timeout):
            self._power_off(uuid)

    def reboot(self, uuid: str, *, hard: bool, timeout: float) -> None:
        domain = self._domain(uuid)
        if hard or not self._shut_down(uuid, domain, timeout):
            self._power_off(uuid)
        self._start(uuid, libvirt.VIR_DOMAIN_START_FORCE_BOOT)  # saved memory is discarded

    def pause(self, uuid: str) -> None:
        domain = self._domain(uuid)
        with translated("pause the guest"):
            if domain.state() == ERROR_STATE:
                raise UnsupportedError("The guest is paused because a volume of it cannot be reached.")
            if self._state(domain) is not PowerState.PAUSED:
                self._check_active(domain)
                domain.suspend()
        self._states.know(uuid, PowerState.PAUSED)

    def unpause(self, uuid: str) -> None:
        domain = self._domain(uuid)
        with translated("resume the guest"):
            if self._state(domain) is not PowerState.RUNNING:
                domain.resume()
        self._states.know(uuid, PowerState.RUNNING)

    def suspend(self, uuid: str) -> None:
        domain = self._domain(uuid)
        with translated("save the guest"):
            if domain.isActive():
                domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)
        self._states.know(uuid, PowerState.SHUTDOWN)

    def resume(self, uuid: str) -> None:
        self._start(uuid)

    def crash_dump(self, uuid: str) -> None:
        domain = self._domain(uuid)
        with translated("interrupt the guest"):
            self._check_active(domain)
            domain.injectNMI()

    def set_password(self, uuid: str, user: str, password: str) -> None:
        with self._agent(uuid, "set the password", PASSWORD_SECONDS) as domain:
            domain.setUserPassword(user, password)

    def trim(self, uuid: str, timeout: float) -> None:
        with self._agent(uuid, "trim the guest's disks", timeout) as domain:
            domain.fSTrim(None, 0)

    def file_systems(self, uuid: str, timeout: float) -> list[FileSystem]:
        with self._agent(uuid, "read the guest's file systems", timeout) as domain:
            info: dict[str, Any] = domain.guestInfo(libvirt.VIR_DOMAIN_GUEST_INFO_FILESYSTEM, 0)
        return file_systems_of(info)

    @contextmanager
    def _agent(self, uuid: str, action: str, timeout: float) -> Iterator[Any]:
        """Yield the domain for requests to its guest agent, with a timeout in seconds; libvirt's default is unlimited.

        Raises UnsupportedError if the agent does not answer.
        """
        domain = self._domain(uuid)
        try:
            domain.agentSetResponseTimeout(max(1, int(timeout)))
            yield domain
        except libvirt.libvirtError as error:
            if error.get_error_code() in _NO_AGENT:
                raise UnsupportedError("The guest's agent does not answer.", detail=str(error)) from error
            with translated(action):
                raise

    @staticmethod
    def _check_active(domain: Any) -> None:
        if not domain.isActive():
            raise UnsupportedError("The guest does not run.")

    def _shut_down(self, uuid: str, domain: Any, timeout: float) -> bool:
        """Send the guest ACPI shutdown requests until it is off, for at most ``timeout`` seconds. Return whether it is
        off.
        """
        deadline = time.monotonic() + timeout
        while True:
            state = self._state(domain)
            self._states.know(uuid, state)
            left = deadline - time.monotonic()
            if state in OFF:
                return True
            if left <= 0 or state is not PowerState.RUNNING:
                return False
            try:
                domain.shutdown()
            except libvirt.libvirtError as error:
                log.info("could not request the shutdown of guest %s: %s", uuid, error)
            if self._states.wait(uuid, OFF, min(left, PRESS_AGAIN)) in OFF:
                return True


def file_systems_of(info: dict[str, Any]) -> list[FileSystem]:
    """Convert the fields ``fs.<number>.…``; file systems without a mount point are omitted."""
    file_systems = [
        _file_system(info, f"fs.{number}.") for number in range(min(_count(info, "fs."), MOST_FILE_SYSTEMS))
    ]
    return [each for each in file_systems if each.mount_point]


def _file_system(info: dict[str, Any], prefix: str) -> FileSystem:
    total, used = _bytes(info, f"{prefix}total-bytes"), _bytes(info, f"{prefix}used-bytes")
    names = [
        str(info.get(f"{prefix}disk.{number}.alias", ""))
        for number in range(min(_count(info, f"{prefix}disk."), MOST_DISKS))
    ]
    return FileSystem(
        mount_point=str(info.get(f"{prefix}mountpoint", ""))[:LONGEST_PATH],
        kind=str(info.get(f"{prefix}fstype", ""))[:LONGEST_KIND],
        total_bytes=total,
        used_bytes=used if total is not None and used is not None and used <= total else None,
        disks=[name[:LONGEST_KIND] for name in names if name],
    )


def _count(info: dict[str, Any], prefix: str) -> int:
    return max(int(info.get(f"{prefix}count", 0)), 0)


def _bytes(info: dict[str, Any], name: str) -> int | None:
    value = info.get(name)
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None
