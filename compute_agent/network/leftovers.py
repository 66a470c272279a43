"""What the host's network has that none of its guests accounts for."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from compute_agent.contract.messages import Leftover
from compute_agent.network import links
from compute_agent.network.records import Records

TAP = re.compile(r"^tap[0-9a-f]{8}-[0-9a-f]{2}$")
"""How the control plane names a guest's interface: "tap" and the first 11 characters of its port's id."""


def listed(records: Records, folder: Path, guests: set[str]) -> list[Leftover]:
    """List interfaces on record without a guest, taps and DHCP leases that are no guest's; changes nothing.

    Whose something is, is known only while its interfaces are on record.  Raises RetryableHostError.
    """
    taps, macs = {}, {}
    for uuid in sorted(records.uuids()):
        for port in records.ports_of(uuid):
            taps[port.tap], macs[port.mac_address.lower()] = uuid, uuid
    found = [Leftover(kind="plug", name=uuid, subject_id=uuid) for uuid in sorted(records.uuids() - guests)]
    interfaces = [name for name in links.names() if TAP.match(name) or name in taps]
    found += _of_none("tap", {name: name for name in interfaces}, taps, guests)
    found += _of_none("lease", dict(_leases(folder)), macs, guests)
    return found


def _of_none(kind: str, names: Mapping[str, str], owners: Mapping[str, str], guests: set[str]) -> list[Leftover]:
    """Return those whose owner is no guest; ``names``: name → what its owner is known by."""
    pairs = [(name, owners.get(key, "")) for name, key in names.items()]
    return [Leftover(kind=kind, name=name, subject_id=owner) for name, owner in pairs if owner not in guests]


def _leases(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each lease that a DHCP server has given, by network and address, with its interface's hardware address.

    Leases of IPv6 do not name it, so they are left out.
    """
    for path in sorted(folder.glob("networks/*/dhcp/leases")):
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) >= 3 and ":" in words[1]:
                yield f"{path.parents[1].name} {words[2]}", words[1].lower()
