"""DHCP options of a port: stored as they are written; a host leaves out those that its DHCP server does not know."""

from collections.abc import Mapping, Sequence

BLANK = ("router", "classless-static-route")
"""Options that an empty value switches off, Neutron's ``VALID_BLANK_EXTRA_DHCP_OPTS``."""
Options = Sequence[Mapping[str, object]]
"""``{"opt_name": text, "opt_value": text or None, "ip_version": 4 or 6}``, the last only if it is given."""


def merged(there: Options, said: Options) -> list[dict[str, object]]:
    """Return a port's options with the new ones in place of the same ones; one without a value is removed."""
    every = {(each["opt_name"], each.get("ip_version", 4)): dict(each) for each in [*there, *said]}
    return [each for each in every.values() if each.get("opt_value") is not None]
