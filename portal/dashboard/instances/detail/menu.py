"""The actions that the page of an instance offers, in groups. An action that is not possible has the reason."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from django.urls import reverse

from portal.dashboard.instances.actions.begin import masters_locks, refusal
from portal.dashboard.instances.dialogs import DIALOGS
from provisioning.common.context import RequestContext
from provisioning.compute.actions.registry import actions, with_buttons
from provisioning.compute.models import Instance
from provisioning.identity import policy

GROUPS: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    (
        "Power",
        (("power_on", "power_off"), ("reboot",), ("reboot_hard",), ("pause", "unpause"), ("suspend", "resume")),
    ),
    (
        "Size and image",
        (
            ("resize", "confirm_resize", "revert_resize"),
            ("migrate",),
            ("live_migrate",),
            ("rebuild",),
            ("snapshot",),
            ("backup",),
        ),
    ),
    ("Disks and network", (("attach_volume",), ("trim",), ("attach_interface",), ("security_groups",))),
    (
        "Repair",
        (("console_log",), ("rescue", "unrescue"), ("change_password",), ("trigger_crash_dump",), ("reset_state",)),
    ),
    ("Name and labels", (("rename",), ("tags",), ("metadata",))),
    ("Keep or delete", (("lock", "unlock"), ("shelve", "unshelve"), ("offload",), ("restore", "delete"))),
)
"""Group → entries of its menu, each with alternatives by key. All possible alternatives are shown; if none is possible,
the first one is shown with the reason.
"""
PRIMARY = (
    *("confirm_resize", "restore", "unrescue", "unshelve", "unpause", "resume", "power_on", "power_off", "reboot_hard"),
)
"""Keys of actions; the first possible action has its own button."""
DANGERS = ("rebuild", "delete")
"""Keys of the actions at the end of the settings."""
ELSEWHERE: Mapping[str, str] = {
    "detach_interface": "at each interface of the tab Network",
    "detach_volume": "at each volume of the tab Disks",
    "mount_volume": "at each volume of the tab Disks",
    "extend_file_system": "at each volume of the tab Disks",
    "addSecurityGroup": "as the security groups of each port of the tab Network",
    "removeSecurityGroup": "as the security groups of each port of the tab Network",
    "addFloatingIp": "at each port of the tab Network",
    "removeFloatingIp": "at each floating IP of the tab Network",
    "os-getConsoleOutput": "as the console log of the tab Console",
    "os-getVNCConsole": "as the screen of the tab Console",
    "os-getSerialConsole": "as the serial line of the tab Console",
    "forceDelete": "as Delete of an instance that is already deleted and can be restored",
}
"""Action (key in the registry, or its name in the Compute API) → the part of the page, other than the menu, that offers
it.
"""
ABSENT: Mapping[str, str] = {
    "refresh_ports": "The system starts it when the filters of an interface change.",
    "refresh_volume": "The system starts it when a disk of a volume changes.",
    "soft_delete": "Delete begins it when RECLAIM_INSTANCE_INTERVAL is set.",
    "swap_volume": "The Block Storage API starts it when it moves a volume; users cannot request it.",
    "evacuate": "Operators evacuate the instances of a host that is down, on the page of the host.",
    "addFixedIp": "Deprecated since microversion 2.44: the addresses of a port are edited on the page of the port.",
    "removeFixedIp": "Deprecated since microversion 2.44: the addresses of a port are edited on the page of the port.",
    "os-getSPICEConsole": "The hosts have no SPICE consoles.",
    "os-getRDPConsole": "The hosts have no RDP consoles.",
    "injectNetworkInfo": "A repair for operators of Nova; hosts get changed interfaces automatically.",
}
"""Action → why the page does not offer it."""


Why = Callable[[RequestContext, Instance, bool], str]
"""Returns why an action cannot begin now, empty if it can; the last argument: the caller may override locks."""


def _always(context: RequestContext, instance: Instance, masters: bool) -> str:  # noqa: FBT001 - the type Why
    return ""


def _has_log(context: RequestContext, instance: Instance, masters: bool) -> str:  # noqa: FBT001 - the type Why
    return "" if instance.host_id else "It is not on a host."


@dataclass(frozen=True, slots=True)
class Entry:
    """An action of the menu. ``asks``: its address is a question or form for the dialog, otherwise a page."""

    key: str
    label: str
    icon: str
    rule: str
    url: Callable[[Instance], str]
    why_not: Why
    danger: bool = False
    asks: bool = True
    name: str = ""
    """Last part of the address of a question or form."""


@dataclass(frozen=True, slots=True)
class Item:
    """An entry for one instance. ``why``: the reason why it is not possible now; empty if it is possible."""

    entry: Entry
    url: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the menu, which has items."""

    label: str
    items: list[Item]


@dataclass(frozen=True, slots=True)
class Menu:
    """All actions that the policy allows, and the action that has its own button."""

    known: Mapping[str, Item]
    """Key → item of each action that the policy allows, also those that a group does not show now."""
    groups: list[Group]
    primary: Item | None
    dangers: list[Item]
    """The actions that lose data."""

    @property
    def possible(self) -> list[list[Item]]:
        """The items that are possible now, by group."""
        groups = ([item for item in group.items if not item.why] for group in self.groups)
        return [items for items in groups if items]


def _of(key: str) -> Why:
    return lambda _, instance, masters: refusal(instance, actions[key], masters=masters)


def _named(url_name: str, *, part: str = "") -> Callable[[Instance], str]:
    return lambda instance: reverse(f"dashboard:{url_name}", args=[instance.id]) + part


def _confirmation(name: str) -> Callable[[Instance], str]:
    return lambda instance: reverse("dashboard:instance_action", args=[instance.id, name])


@cache
def entries() -> Mapping[str, Entry]:
    """Return key → entry: the actions with a button, and the dialogs, which replace buttons with the same key."""
    result = {
        "attach_volume": Entry(
            "attach_volume",
            "Attach volume",
            "link-45deg",
            "os_compute_api:os-volumes-attachments:create",
            _named("server_attach"),
            _of("attach_volume"),
        ),
        "security_groups": Entry(
            "security_groups",
            "Security groups",
            "shield",
            "get_port",
            _named("instance_network", part="#instance-reach"),
            _always,
            asks=False,
        ),
        "console_log": Entry(
            "console_log",
            "Console log",
            "card-text",
            "os_compute_api:os-console-output",
            _named("instance_console"),
            _has_log,
            asks=False,
        ),
    }
    for action in with_buttons():
        if button := action.button:
            result[action.key] = Entry(
                action.key,
                button.label,
                button.icon,
                action.rule,
                _confirmation(button.name),
                _of(action.key),
                button.danger,
                name=button.name,
            )
    for sheet in DIALOGS:
        if sheet.in_menu:
            key = sheet.action or sheet.path
            result[key] = Entry(
                key,
                sheet.label,
                sheet.icon,
                sheet.rule,
                _named(sheet.url_name()),
                sheet.why_not,
                sheet.danger,
                name=sheet.path,
            )
    return result


def menu_for(context: RequestContext, instance: Instance) -> Menu:
    """Return the menu of an instance for the caller."""
    own = {"project_id": str(instance.project_id), "user_id": str(instance.user_id)}
    masters = masters_locks(context)
    known: dict[str, Item] = {}
    for key, entry in entries().items():
        if policy.allows(context, entry.rule, own):
            known[key] = Item(entry, entry.url(instance), entry.why_not(context, instance, masters))
    groups = [Group(label, list(_shown(places, known))) for label, places in GROUPS]
    primary = (known[key] for key in PRIMARY if key in known and not known[key].why)
    return Menu(
        known,
        [group for group in groups if group.items],
        next(primary, None),
        [known[key] for key in DANGERS if key in known],
    )


def _shown(places: tuple[tuple[str, ...], ...], known: Mapping[str, Item]) -> Iterator[Item]:
    for place in places:
        items = [known[key] for key in place if key in known]
        yield from [item for item in items if not item.why] or items[:1]
