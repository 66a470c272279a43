"""Reading and restoring the firmware state of a guest: its UEFI variables and its TPM."""

from compute_agent.contract.firmware_state import FirmwareKind, FirmwareState
from compute_agent.virt.errors import RetryableHostError, UnsupportedError
from compute_agent.virt.libvirt import firmware
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.domains import Domains


class FirmwareOperations(Domains):
    """UEFI variables and TPMs, in files of the guest's directory."""

    def uefi_variables(self, uuid: str) -> dict[FirmwareKind, bytes]:
        self._domain(uuid)
        paths = self._paths.instance(uuid)
        result: dict[FirmwareKind, bytes] = {}
        for secure in (False, True):
            path = paths.variables(secure_boot=secure, rescue=False)
            if path.exists():
                result[firmware.kind_of(secure_boot=secure)] = firmware.read(path)
        return result

    def firmware_state(self, uuid: str) -> FirmwareState:
        domain = self._domain(uuid)
        with translated("report the guest's state"):
            if domain.isActive():
                raise UnsupportedError("The guest runs.")
        mark, tpm = self._mark(domain), self._tpm(uuid)
        try:
            state = FirmwareState(variables=self.uefi_variables(uuid))
            if mark is None or not mark.tpm_version:
                return state
            return FirmwareState(variables=state.variables, tpm=tpm.read(), tpm_key=tpm.key.read_text())
        except OSError as error:
            raise RetryableHostError("The host cannot read the guest's firmware state.", detail=str(error)) from error

    def restore_firmware(self, uuid: str, state: FirmwareState) -> None:
        paths = self._folder(uuid)
        for secure in (False, True):
            path = paths.variables(secure_boot=secure, rescue=False)
            content = state.variables.get(firmware.kind_of(secure_boot=secure))
            if content is None:
                path.unlink(missing_ok=True)
            else:
                firmware.write(path, content)
        if state.tpm_key:
            self._tpm(uuid).restore(state.tpm, state.tpm_key)
