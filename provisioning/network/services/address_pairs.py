"""What else a port may send: addresses and ranges that are far from being every address."""

from collections.abc import Mapping, Sequence

import netaddr

from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing

Pairs = Sequence[Mapping[str, str]]
"""``{"ip_address": an address or a range, "mac_address": text}``, the second only if it is said."""
WIDEST = {4: 8, 6: 16}
"""By IP version, the prefix of the widest range that the pairs of a port may be together."""
BITS = {4: 32, 6: 128}


def checked(pairs: Pairs, mac_address: str) -> list[dict[str, str]]:
    """Return the pairs as they are kept, with the port's MAC address where one names none.  Raises InvalidInputError.

    The limit is for all of them together: two halves of all addresses are all addresses.
    """
    ranges = []
    for pair in pairs:
        try:
            ranges.append(addressing.read_prefix(pair["ip_address"], loose=True))
        except (ValueError, KeyError):
            raise _invalid(f"'{str(pair.get('ip_address'))[:64]}' is no address and no range") from None
    for version, length in WIDEST.items():
        together = netaddr.IPSet(each.cidr for each in ranges if each.version == version)
        if together.size > 1 << (BITS[version] - length):
            raise _invalid(
                f"together they are wider than an IPv{version} range of /{length}; "
                "switch port_security_enabled off to let the port send from every address"
            )
    return [
        {"mac_address": mac_address, **pair, "ip_address": str(each if "/" in pair["ip_address"] else each.ip)}
        for pair, each in zip(pairs, ranges, strict=True)
    ]


def _invalid(reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"Invalid input for allowed_address_pairs. Reason: {reason}.", field="allowed_address_pairs"
    )
