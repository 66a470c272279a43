"""Entries of the side bar and of the tab bar on phones: in a project, in a domain, and on the system."""

from collections.abc import Sequence
from dataclasses import dataclass

from portal.dashboard.frame.addresses import address
from provisioning.common.context import RequestContext
from provisioning.identity import policy


@dataclass(frozen=True, slots=True)
class Entry:
    """A navigation entry. ``keys``: its keyboard shortcut, in which ``-`` represents a space; empty if it has none."""

    section: str
    label: str
    url_name: str
    icon: str
    keys: str
    group: str = ""
    on_phone: bool = False
    rule: str = ""
    """The policy rule of its page."""
    scopes: tuple[str, ...] = ("project",)
    """Token scopes in which its pages exist."""

    @property
    def address(self) -> str:
        return address(self.url_name)


EVERYWHERE = ("project", "domain", "system")
OUTSIDE_ON_PHONE = frozenset({"projects", "users", "groups"})
"""Sections that the tab bar on phones shows if the token is not for a project."""


def _people(section: str, icon: str, keys: str, scopes: tuple[str, ...] = EVERYWHERE) -> Entry:
    """Return the entry of a list of Identity records."""
    rule = f"identity:list_{section}"
    return Entry(
        section, section.capitalize(), f"dashboard:{section}", icon, keys, "Identity", rule=rule, scopes=scopes
    )


OPERATORS = Entry("operators", "Records", "admin:index", "tools", "g-a", "Cloud", rule="novella:admin")
CLOUD = (
    Entry("cloud", "Cloud", "dashboard:cloud", "cloud", "g-q", "Cloud", rule="novella:cloud"),
    Entry(
        "hosts",
        "Hosts",
        "dashboard:hosts",
        "hdd-rack",
        "g-s",
        "Cloud",
        rule="os_compute_api:os-hypervisors:list-detail",
    ),
    Entry(
        "pools",
        "Pools",
        "dashboard:pools",
        "database",
        "g-P",
        "Cloud",
        rule="scheduler_extension:scheduler_stats:get_pools",
    ),
    Entry(
        "migrations",
        "Migrations",
        "dashboard:migrations",
        "truck",
        "g-M",
        "Cloud",
        rule="os_compute_api:os-migrations:index:all_projects",
    ),
    Entry(
        "usage",
        "Usage",
        "dashboard:usage",
        "bar-chart",
        "g-z",
        "Cloud",
        rule="os_compute_api:os-simple-tenant-usage:list",
    ),
    OPERATORS,
)
"""Entries of operators, before all others."""
ENTRIES = (
    Entry("overview", "Overview", "dashboard:overview", "grid-1x2", "g-o", on_phone=True),
    Entry(
        "domain",
        "Domain",
        "dashboard:own_domain",
        "diagram-3",
        "g-o",
        on_phone=True,
        rule="identity:get_domain",
        scopes=("domain",),
    ),
    Entry(
        "system",
        "System",
        "dashboard:system",
        "globe2",
        "g-o",
        on_phone=True,
        rule="identity:list_system_grants_for_user",
        scopes=("system",),
    ),
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
        "floating_ips",
        "Floating IPs",
        "dashboard:floating_ips",
        "signpost",
        "g-e",
        "Network",
        rule="get_floatingip",
    ),
    Entry(
        "security_groups",
        "Security groups",
        "dashboard:security_groups",
        "shield",
        "g-y",
        "Network",
        rule="get_security_group",
    ),
    Entry("volumes", "Volumes", "dashboard:volumes", "device-hdd", "g-v", "Volumes", rule="volume:get_all"),
    Entry(
        "volume_snapshots",
        "Snapshots",
        "dashboard:volume_snapshots",
        "camera",
        "g-h",
        "Volumes",
        rule="volume:get_all_snapshots",
    ),
    Entry("volume_backups", "Backups", "dashboard:volume_backups", "archive", "g-b", "Volumes", rule="backup:get_all"),
    Entry(
        "volume_failures",
        "Failures",
        "dashboard:volume_failures",
        "exclamation-octagon",
        "g-F",
        "Volumes",
        rule="message:get_all",
    ),
    Entry("images", "Images", "dashboard:images", "disc", "g-m", "Library", on_phone=True, rule="get_images"),
    Entry("catalogue", "Image catalogue", "dashboard:catalogue", "journals", "g-x", "Library", rule="get_images"),
    Entry("flavors", "Flavors", "dashboard:flavors", "sliders", "g-f", "Library", rule="novella:flavors:index"),
    Entry(
        "launch_templates",
        "Launch templates",
        "dashboard:launch_templates",
        "rocket-takeoff",
        "g-T",
        "Library",
        rule="novella:launch_templates:list",
    ),
    Entry(
        "server_groups",
        "Server groups",
        "dashboard:server_groups",
        "boxes",
        "g-G",
        "Library",
        rule="os_compute_api:os-server-groups:index",
    ),
    Entry(
        "key_pairs",
        "Key pairs",
        "dashboard:key_pairs",
        "key",
        "g-k",
        "Library",
        rule="os_compute_api:os-keypairs:index",
    ),
    _people("projects", "collection", "g-j"),
    _people("users", "person", "g-u"),
    _people("groups", "people", "g-g"),
    _people("roles", "shield-check", "g-l"),
    _people("domains", "diagram-3", "g-d", scopes=("project", "system")),
    Entry(
        "application_credentials",
        "Application credentials",
        "dashboard:application_credentials",
        "robot",
        "g-c",
        "Identity",
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
TITLES = {entry.section: entry.label for entry in (*CLOUD, *ENTRIES)}
HOMES = {entry.section: entry.url_name for entry in (*CLOUD, *ENTRIES)}
"""Section → the URL name of its first page."""


HOME_OF = {"project": "dashboard:overview", "domain": "dashboard:own_domain", "system": "dashboard:system"}
"""Token scope → the URL name of its start page."""


def scope_of(context: RequestContext) -> str:
    """Return the scope of the caller's token: ``project``, ``domain`` or ``system``; empty for none."""
    if context.project_id is not None:
        return "project"
    return "domain" if context.domain_id is not None else "system" if context.system else ""


def entries_for(context: RequestContext) -> tuple[Entry, ...]:
    """Return the entries whose pages the caller may open with this token."""
    own = {"user_id": context.user_id, "project_id": context.project_id, "domain_id": context.domain_id}
    scope = scope_of(context)
    entries = (entry for entry in (*CLOUD, *ENTRIES) if scope in entry.scopes)
    return tuple(entry for entry in entries if not entry.rule or policy.allows(context, entry.rule, own))


@dataclass(frozen=True, slots=True)
class Group:
    """Collapsible entries under one heading; entries without a heading are always shown."""

    name: str
    entries: tuple[Entry, ...]
    open: bool
    """Whether it is expanded by default."""


def groups_of(entries: Sequence[Entry], section: str) -> list[Group]:
    """Return the groups of the side bar in order; the first group and the group of this section are expanded."""
    result: dict[str, list[Entry]] = {}
    for entry in entries:
        result.setdefault(entry.group, []).append(entry)
    first = next((name for name in result if name), "")
    return [
        Group(name, tuple(members), name == first or any(entry.section == section for entry in members))
        for name, members in result.items()
    ]


def tabs_of(entries: Sequence[Entry], context: RequestContext) -> tuple[Entry, ...]:
    """Return the entries of the tab bar on phones."""
    inside = scope_of(context) == "project"
    return tuple(entry for entry in entries if entry.on_phone or (not inside and entry.section in OUTSIDE_ON_PHONE))
