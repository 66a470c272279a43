"""The entries of the side bar and of the phone's tab bar."""

from __future__ import annotations

from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.identity import policy


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
    rule: str = ""
    """The policy rule that opens it."""


ENTRIES = (
    Entry("overview", "Overview", "dashboard:overview", "grid-1x2", "g-o", on_phone=True),
    Entry(
        "instances", "Instances", "dashboard:instances", "hdd-stack", "g-i", on_phone=True, rule="compute:servers:list"
    ),
    Entry("project", "Project", "dashboard:own_project", "folder2", "g-p", rule="identity:projects:show"),
    Entry("images", "Images", "dashboard:images", "disc", "g-m", "Library", on_phone=True, rule="image:images:list"),
    Entry("flavors", "Flavors", "dashboard:flavors", "sliders", "g-f", "Library", rule="compute:flavors:list"),
    Entry("key_pairs", "Key pairs", "dashboard:key_pairs", "key", "g-k", "Library", rule="compute:keypairs:list"),
    Entry("projects", "Projects", "dashboard:projects", "collection", "g-j", "Identity", rule="identity:projects:list"),
    Entry("users", "Users", "dashboard:users", "person", "g-u", "Identity", rule="identity:users:list"),
    Entry("groups", "Groups", "dashboard:groups", "people", "g-g", "Identity", rule="identity:groups:list"),
    Entry("roles", "Roles", "dashboard:roles", "shield-check", "g-l", "Identity", rule="identity:roles:list"),
    Entry("domains", "Domains", "dashboard:domains", "diagram-3", "g-d", "Identity", rule="identity:domains:list"),
    Entry(
        *("application_credentials", "Application credentials", "dashboard:application_credentials"),
        *("robot", "g-c", "Identity"),
        rule="identity:application_credentials:list",
    ),
    Entry(
        "api_access", "API access", "dashboard:api_access", "terminal", "g-t", "Identity", rule="identity:auth:catalog"
    ),
)
OPERATORS = Entry("operators", "Operators", "admin:index", "tools", "g-a", "Cloud", rule="ops:admin")


def entries_for(context: RequestContext) -> tuple[Entry, ...]:
    """Return the entries this person has."""
    own = {"user_id": context.user_id, "project_id": context.project_id}
    return tuple(entry for entry in (*ENTRIES, OPERATORS) if not entry.rule or policy.allows(context, entry.rule, own))
