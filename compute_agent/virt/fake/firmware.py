"""UEFI variables and TPMs of simulated guests."""

import secrets

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.firmware_state import FirmwareKind, FirmwareState
from compute_agent.contract.guest_hardware import guest_hardware
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.fake.usage import FakeUsage


class FakeFirmware(FakeUsage):
    """The part of the fake driver for firmware states."""

    def uefi_variables(self, uuid: str) -> dict[FirmwareKind, bytes]:
        with self._changed:
            self._guest(uuid)
            return dict(self._state.firmware.get(uuid, FirmwareState()).variables)

    def firmware_state(self, uuid: str) -> FirmwareState:
        with self._changed:
            if self._guest(uuid).power != PowerState.SHUTDOWN:
                raise UnsupportedError("The guest runs.")
            return self._state.firmware.get(uuid, FirmwareState())

    def restore_firmware(self, uuid: str, state: FirmwareState) -> None:
        with self._changed:
            self._state.firmware[uuid] = state
            self._write(uuid)

    def _have_firmware(self, spec: InstanceSpec) -> None:
        """Create variables and TPM of a guest that needs them and has none."""
        hardware = guest_hardware(spec)
        uefi = hardware.firmware == "uefi" and not hardware.firmware_stateless
        if (uefi or hardware.tpm_version) and spec.uuid not in self._state.firmware:
            key = secrets.token_hex(32) if hardware.tpm_version else ""
            self._state.firmware[spec.uuid] = FirmwareState(
                variables={"uefi": b"of " + spec.uuid.encode()} if uefi else {},
                tpm={"state": secrets.token_bytes(32)} if key else {},
                tpm_key=key,
            )
