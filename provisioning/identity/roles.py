"""Which roles bring which: ``admin`` implies ``member``, ``member`` implies ``reader``."""

from __future__ import annotations

from collections.abc import Iterable

IMPLIED: dict[str, frozenset[str]] = {
    "admin": frozenset({"admin", "member", "reader"}),
    "member": frozenset({"member", "reader"}),
    "reader": frozenset({"reader"}),
}


def expand(names: Iterable[str]) -> frozenset[str]:
    """Return the roles and all that they imply; a role of an operator's own making implies only itself."""
    return frozenset(implied for name in names for implied in IMPLIED.get(name, frozenset({name})))
