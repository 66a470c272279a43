"""Uploads firmware states of servers to the portal and downloads them. The portal permits this only while a command of
the host refers to the state.
"""

import hashlib
from urllib.parse import quote

from compute_agent.contract.firmware_state import MOST_BYTES
from compute_agent.link.portal_requests import PortalRequests
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import FirmwareTransferError


class FirmwareLink(PortalRequests):
    """One host's access to the firmware states at the portal (``servers.services.FirmwareOutlet``)."""

    failure = FirmwareTransferError
    what = "The transfer of a firmware state"

    def send(self, packed: bytes, instance_uuid: str, stopped: Stopped) -> None:
        self._ask("PUT", _path(instance_uuid, hashlib.sha256(packed).hexdigest()), packed, stopped)

    def fetch(self, instance_uuid: str, digest: str, stopped: Stopped) -> bytes:
        packed = self._ask("GET", _path(instance_uuid, digest), None, stopped, longest=MOST_BYTES + 1)
        arrived = hashlib.sha256(packed).hexdigest()
        if arrived != digest:
            reason = "The server's firmware state does not match its digest."
            raise FirmwareTransferError(reason, detail=f"it has {len(packed)} bytes and SHA-256 {arrived}")
        return packed


def _path(instance_uuid: str, digest: str) -> str:
    return f"/agent/v1/instances/{quote(instance_uuid, safe='')}/firmware/{digest}"
