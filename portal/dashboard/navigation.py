"""The entries of the side bar and of the phone's tab bar."""

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
        "instances",
        "Instances",
        "dashboard:instances",
        "hdd-stack",
        "g-i",
        on_phone=True,
        rule="os_compute_api:servers:detail",
    ),
    Entry("project", "Project", "dashboard:own_project", "folder2", "g-p", rule="identity:get_project"),
    Entry("topology", "Network map", "dashboard:topology", "diagram-2", "g-n", "Network", rule="get_network"),
    Entry("networks", "Networks", "dashboard:networks", "hdd-network", "g-w", "Network", rule="get_network"),
    Entry("routers", "Routers", "dashboard:routers", "router", "g-r", "Network", rule="get_router"),
    Entry(
        *("floating_ips", "Floating IPs", "dashboard:floating_ips", "signpost", "g-e", "Network"),
        rule="get_floatingip",
    ),
    Entry(
        *("security_groups", "Security groups", "dashboard:security_groups", "shield", "g-y", "Network"),
        rule="get_security_group",
    ),
    Entry("volumes", "Volumes", "dashboard:volumes", "device-hdd", "g-v", "Volumes", rule="volume:get_all"),
    Entry(
        *("volume_snapshots", "Snapshots", "dashboard:volume_snapshots", "camera", "g-h", "Volumes"),
        rule="volume:get_all_snapshots",
    ),
    Entry("volume_backups", "Backups", "dashboard:volume_backups", "archive", "g-b", "Volumes", rule="backup:get_all"),
    Entry("images", "Images", "dashboard:images", "disc", "g-m", "Library", on_phone=True, rule="get_images"),
    Entry("flavors", "Flavors", "dashboard:flavors", "sliders", "g-f", "Library", rule="novella:flavors:index"),
    Entry(
        "key_pairs",
        "Key pairs",
        "dashboard:key_pairs",
        "key",
        "g-k",
        "Library",
        rule="os_compute_api:os-keypairs:index",
    ),
    Entry("projects", "Projects", "dashboard:projects", "collection", "g-j", "Identity", rule="identity:list_projects"),
    Entry("users", "Users", "dashboard:users", "person", "g-u", "Identity", rule="identity:list_users"),
    Entry("groups", "Groups", "dashboard:groups", "people", "g-g", "Identity", rule="identity:list_groups"),
    Entry("roles", "Roles", "dashboard:roles", "shield-check", "g-l", "Identity", rule="identity:list_roles"),
    Entry("domains", "Domains", "dashboard:domains", "diagram-3", "g-d", "Identity", rule="identity:list_domains"),
    Entry(
        *("application_credentials", "Application credentials", "dashboard:application_credentials"),
        *("robot", "g-c", "Identity"),
        rule="identity:list_application_credentials",
    ),
    Entry(
        "api_access",
        "API access",
        "dashboard:api_access",
        "terminal",
        "g-t",
        "Identity",
        rule="identity:get_auth_catalog",
    ),
)
TITLES = {entry.section: entry.label for entry in ENTRIES}
HOMES = {entry.section: entry.url_name for entry in ENTRIES}
"""Section → the URL name of its first page."""
OPERATORS = Entry("operators", "Operators", "admin:index", "tools", "g-a", "Cloud", rule="novella:admin")


def entries_for(context: RequestContext) -> tuple[Entry, ...]:
    own = {"user_id": context.user_id, "project_id": context.project_id}
    return tuple(entry for entry in (*ENTRIES, OPERATORS) if not entry.rule or policy.allows(context, entry.rule, own))
