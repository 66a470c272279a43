"""Kinds of values that are names in the DNS (RFC 1123)."""

import re
from dataclasses import dataclass

from portal.api.network.dialect.kinds import Text, quoted

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class DnsName(Text):
    """One label of a host name, or empty."""

    longest: int = 63

    def read(self, value: object) -> str:
        found = super().read(value)
        if found and not _LABEL.fullmatch(found):
            raise ValueError(f"{quoted(value)} is not a valid host name without a domain")
        return found.lower()


@dataclass(frozen=True)
class DnsDomain(Text):
    """A domain, with or without Neutron's trailing dot, or empty."""

    longest: int = 253

    def read(self, value: object) -> str:
        found = super().read(value)
        if found and not all(_LABEL.fullmatch(label) for label in found.removesuffix(".").split(".")):
            raise ValueError(f"{quoted(value)} is not a valid domain")
        return found
