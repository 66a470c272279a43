"""nftables syntax: sets and maps of validated addresses, in a stable order."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from compute_agent.network.dhcp.dhcp_config import MAC


def mac_address(text: str) -> str:
    """Return a MAC address in lower case. Raises ValueError for invalid text."""
    if not MAC.fullmatch(text.lower()):
        raise ValueError(f"not a hardware address: {text!r}")
    return text.lower()


def of_version(version: int, addresses: Iterable[str]) -> list[str]:
    """Return the texts with this IP version. They are addresses, ranges, or addresses with prefix length."""
    return [text for text in addresses if ipaddress.ip_interface(text).version == version]


def replaced(family: str, table: str) -> list[str]:
    """Return the lines that empty a table, for the transaction that fills it again."""
    return [f"table {family} {table}", f"delete table {family} {table}"]


def nft_set(name: str, kind: str, elements: Iterable[str], *, ranges: bool = False) -> list[str]:
    """Render a set. With ``ranges`` its elements may be in CIDR notation and overlap."""
    flags = "flags interval; auto-merge; " if ranges else ""
    return [f"  set {name} {{ type {kind}; {flags}{_elements(sorted(set(elements)))}}}"]


def nft_map(name: str, kind: str, elements: Mapping[str, str], *, ranges: bool = False) -> list[str]:
    """Render a map. ``kind`` is the type of keys and values. With ``ranges`` the keys may be ranges."""
    flags = "flags interval; " if ranges else ""
    listed = [f"{key} : {value}" for key, value in sorted(elements.items())]
    return [f"  map {name} {{ type {kind}; {flags}{_elements(listed)}}}"]


def _elements(listed: Sequence[str]) -> str:
    return f"elements = {{ {', '.join(listed)} }}; " if listed else ""
