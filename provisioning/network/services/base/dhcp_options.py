"""DHCP options of a port, stored as they are sent; a host ignores those that its DHCP server does not support."""

from collections.abc import Mapping, Sequence

BLANK = ("router", "classless-static-route")
"""Options that an empty value disables, Neutron's ``VALID_BLANK_EXTRA_DHCP_OPTS``."""
Options = Sequence[Mapping[str, object]]
"""``{"opt_name": text, "opt_value": text or None, "ip_version": 4 or 6}``; ``ip_version`` is optional."""


def merged(there: Options, changes: Options) -> list[dict[str, object]]:
    """Return a port's options updated with the new ones; an option whose value is None is removed."""
    every = {(each["opt_name"], each.get("ip_version", 4)): dict(each) for each in [*there, *changes]}
    return [each for each in every.values() if each.get("opt_value") is not None]
