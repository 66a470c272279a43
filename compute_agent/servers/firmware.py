"""Transfer of a guest's firmware state between its host and the portal."""

from compute_agent.contract.firmware_state import pack, unpack
from compute_agent.servers.services import FirmwareOutlet, HostServices
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import FirmwareTransferError, UnsupportedError


def upload(host: HostServices, uuid: str, stopped: Stopped) -> None:
    """Send the state of a stopped guest. Raises UnsupportedError if it is too large, FirmwareTransferError."""
    outlet = _outlet(host)
    try:
        packed = pack(host.driver.firmware_state(uuid))
    except ValueError as error:
        raise UnsupportedError(str(error)) from error
    outlet.send(packed, uuid, stopped)


def restore(host: HostServices, uuid: str, digest: str, stopped: Stopped) -> None:
    """Fetch the state with this SHA-256 and store it for the guest. Raises FirmwareTransferError."""
    state = unpack(_outlet(host).fetch(uuid, digest, stopped))
    if state is None:
        raise FirmwareTransferError("The server's firmware state is not valid.")
    host.driver.restore_firmware(uuid, state)


def _outlet(host: HostServices) -> FirmwareOutlet:
    if host.firmware is None:
        raise UnsupportedError("This host cannot transfer firmware states.")
    return host.firmware
