"""Allowed address pairs: additional addresses and ranges that a port may send from, limited in size."""

from collections.abc import Mapping, Sequence

import netaddr

from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing

Pairs = Sequence[Mapping[str, str]]
"""``{"ip_address": an address or a range, "mac_address": text}``; ``mac_address`` is optional."""
WIDEST = {4: 8, 6: 16}
"""IP version → prefix length of the largest range that all pairs of a port may cover together."""
BITS = {4: 32, 6: 128}


def checked(pairs: Pairs, mac_address: str) -> list[dict[str, str]]:
    """Return the pairs as they are stored, by default with the port's MAC address.  Raises InvalidInputError.

    The limit applies to all pairs together, because two pairs could otherwise cover the whole address space.
    """
    ranges = []
    for pair in pairs:
        try:
            ranges.append(addressing.read_prefix(pair["ip_address"], loose=True))
        except (ValueError, KeyError):
            raise _invalid(f"'{str(pair.get('ip_address'))[:64]}' is neither an address nor a range") from None
    for version, length in WIDEST.items():
        together = netaddr.IPSet(each.cidr for each in ranges if each.version == version)
        if together.size > 1 << (BITS[version] - length):
            raise _invalid(
                f"together they are wider than an IPv{version} range of /{length}; "
                "disable port_security_enabled to allow the port to send from any address"
            )
    return [
        {"mac_address": mac_address, **pair, "ip_address": str(each if "/" in pair["ip_address"] else each.ip)}
        for pair, each in zip(pairs, ranges, strict=True)
    ]


def _invalid(reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"Invalid input for allowed_address_pairs. Reason: {reason}.", field="allowed_address_pairs"
    )
