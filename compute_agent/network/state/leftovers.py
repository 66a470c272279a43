"""Leftovers of the host's network, which do not belong to any of its guests."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from compute_agent.contract.messages import Leftover
from compute_agent.network.kernel import links
from compute_agent.network.state.records import Records

TAP = re.compile(r"^tap[0-9a-f]{8}-[0-9a-f]{2}$")
"""The control plane's names of guests' interfaces: "tap" and the first 11 characters of the port's id."""


def listed(records: Records, folder: Path, guests: set[str]) -> list[Leftover]:
    """List recorded interfaces without a guest, and taps and DHCP leases that belong to no guest. Changes nothing.

    The owner of a tap or lease is known only while the guest's interfaces are recorded. Raises RetryableHostError.
    """
    taps, macs = {}, {}
    for uuid in sorted(records.uuids()):
        for port in records.ports_of(uuid):
            taps[port.tap], macs[port.mac_address.lower()] = uuid, uuid
    result = [Leftover(kind="plug", name=uuid, subject_id=uuid) for uuid in sorted(records.uuids() - guests)]
    interfaces = [name for name in links.names() if TAP.match(name) or name in taps]
    result += _of_none("tap", {name: name for name in interfaces}, taps, guests)
    result += _of_none("lease", dict(_leases(folder)), macs, guests)
    return result


def _of_none(kind: str, names: Mapping[str, str], owners: Mapping[str, str], guests: set[str]) -> list[Leftover]:
    """Return the objects whose owner is not a guest. ``names``: name of the object → key in ``owners``."""
    pairs = [(name, owners.get(key, "")) for name, key in names.items()]
    return [Leftover(kind=kind, name=name, subject_id=owner) for name, owner in pairs if owner not in guests]


def _leases(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each lease of the DHCP servers: its name (network and address), and its interface's MAC address.

    IPv6 leases do not contain the MAC address and are omitted.
    """
    for path in sorted(folder.glob("networks/*/dhcp/leases")):
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) >= 3 and ":" in words[1]:
                yield f"{path.parents[1].name} {words[2]}", words[1].lower()
