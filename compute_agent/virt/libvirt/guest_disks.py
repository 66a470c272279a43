"""Disks in a guest, examined, mounted and extended through its guest agent."""

import json

from compute_agent.contract.guest_disks import InspectedDisk
from compute_agent.virt import guest_disks
from compute_agent.virt.errors import GuestDiskError
from compute_agent.virt.libvirt import guest_programs
from compute_agent.virt.libvirt.power import PowerOperations


class GuestDiskOperations(PowerOperations):
    """The driver's operations on disks in a guest."""

    def inspect_disk(self, uuid: str, serial: str, timeout: float) -> InspectedDisk:
        return guest_disks.inspected(self._run(uuid, guest_disks.arguments("inspect", serial), timeout))

    def mount_disk(self, uuid: str, serial: str, directory: str, timeout: float) -> None:
        self._run(uuid, guest_disks.arguments("mount", serial, directory), timeout)

    def extend_file_system(self, uuid: str, serial: str, timeout: float) -> None:
        self._run(uuid, guest_disks.arguments("extend", serial), timeout)

    def _run(self, uuid: str, arguments: list[str], timeout: float) -> str:
        """Run the guest's program and return its output."""
        with self._agent(uuid, "ask the guest agent", guest_programs.ANSWER_SECONDS) as domain:
            try:
                done = guest_programs.run(domain, guest_disks.PROGRAM, arguments, timeout)
            except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
                raise GuestDiskError("The guest agent's answer is invalid.", detail=repr(error)) from error
        if done.status:
            raise guest_disks.failure(done.status, done.error)
        return done.output
