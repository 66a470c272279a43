"""The entries of the side bar and of the phone's tab bar."""

from __future__ import annotations

from dataclasses import dataclass

from provisioning.common.context import RequestContext


@dataclass(frozen=True, slots=True)
class Entry:
    """One place to go: ``keys`` is its shortcut, a blank written as ``-``."""

    section: str
    label: str
    url_name: str
    icon: str
    keys: str
    group: str = ""
    on_phone: bool = False


ENTRIES = (
    Entry("overview", "Overview", "dashboard:overview", "grid-1x2", "g-o", on_phone=True),
    Entry("instances", "Instances", "dashboard:instances", "hdd-stack", "g-i", on_phone=True),
    Entry("images", "Images", "dashboard:images", "disc", "g-m", "Library", on_phone=True),
    Entry("flavors", "Flavors", "dashboard:flavors", "sliders", "g-f", "Library"),
    Entry("key_pairs", "Key pairs", "dashboard:key_pairs", "key", "g-k", "Library"),
)
OPERATORS = Entry("operators", "Operators", "admin:index", "tools", "g-a", "Cloud")


def entries_for(context: RequestContext) -> tuple[Entry, ...]:
    """Return the entries this person has."""
    return (*ENTRIES, OPERATORS) if context.is_admin else ENTRIES
