"""The tabs of an instance's page, each with its own address, data and live parts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse

from portal.dashboard.graphs import parts as graphs
from portal.dashboard.instances.detail import contents
from portal.dashboard.instances.detail.disks import SEES as SEES_DISKS
from portal.dashboard.instances.detail.disks import disks_for
from portal.dashboard.instances.detail.reach import reach_for
from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from provisioning.compute.services.remote_consoles import RULE as OPENS_CONSOLES
from provisioning.identity import policy

NETWORK, VOLUME = "network", "volume"
"""Kinds of events, besides those of the instance, that a tab may follow."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab: its parts are templates that render one element with an id.

    Events of the instance, and of the kinds in ``follows``, render ``main`` and ``side`` again; ``once`` is below
    ``main`` and rendered only with the page, because a script fills it. ``rules``: one of them must allow the caller to
    see the tab; empty: all callers who see the instance.
    """

    name: str
    """Last part of the address; empty: the page of the instance itself."""
    label: str
    read: Callable[[RequestContext, Instance], Mapping[str, Any]]
    """Returns the context of the parts; the head of the page is read separately."""
    main: tuple[str, ...]
    side: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    follows: frozenset[str] = field(default_factory=frozenset)
    scripts: tuple[str, ...] = ()
    """Static files of modules that only this tab uses."""
    styles: tuple[str, ...] = ()

    @property
    def url_name(self) -> str:
        return f"instance_{self.name}" if self.name else "instance"

    @property
    def route(self) -> str:
        """The part of the address that follows the instance's address."""
        return f"{self.name}/" if self.name else ""

    @property
    def templates(self) -> tuple[str, ...]:
        """The templates that events render again."""
        return (*self.main, *self.side)

    def seen_by(self, context: RequestContext, instance: Instance) -> bool:
        """Whether the caller, who sees the instance, may also see the tab."""
        own = {"project_id": instance.project_id, "user_id": instance.user_id}
        return not self.rules or any(policy.allows(context, rule, own) for rule in self.rules)

    def live_page(self, instance: Instance) -> str:
        """The name of the page for its socket."""
        return f"instance/{instance.id}/{self.name}".rstrip("/")


def _part(name: str) -> str:
    return f"dashboard/instances/_{name}.html"


GRAPHS = Tab(
    "graphs",
    "Graphs",
    graphs.server_graphs,
    main=(),
    once=("dashboard/graphs/_graphs.html",),
    rules=(graphs.OF_SERVER,),
    scripts=("js/graphs.js",),
)
TABS: tuple[Tab, ...] = (
    Tab(
        "",
        "Overview",
        contents.overview_for,
        main=(_part("connect"), _part("decisions"), _part("timeline"), _part("actions")),
        side=(_part("open_console"), _part("facts")),
        styles=("css/decisions.css",),
    ),
    GRAPHS,
    Tab(
        "console",
        "Console",
        contents.console_for,
        main=(_part("open_console"),),
        once=(_part("console_frame"), _part("console")),
        rules=(OPENS_CONSOLES, contents.READS_LOG),
        scripts=("js/console.js",),
    ),
    Tab(
        "disks",
        "Disks",
        lambda context, instance: {"disks": disks_for(context, instance)},
        main=(_part("disks"), _part("disk_guides"), _part("mounts"), _part("figures")),
        rules=(SEES_DISKS,),
        follows=frozenset({VOLUME}),
    ),
    Tab(
        "network",
        "Network",
        lambda context, instance: {"reach": reach_for(context, instance)},
        main=(_part("reach"),),
        rules=("get_port",),
        follows=frozenset({NETWORK}),
    ),
    Tab(
        "activity",
        "Activity",
        contents.activity_for,
        main=(_part("activity"), _part("timeline"), _part("decisions")),
        rules=(contents.LISTS_ACTIONS,),
        styles=("css/decisions.css",),
    ),
    Tab("settings", "Settings", contents.settings_for, main=(_part("settings"),)),
)
"""In the order of the page. Each tab is declared once: its address, its entry and its live parts follow from it."""


def tab_named(name: str) -> Tab | None:
    return next((tab for tab in TABS if tab.name == name), None)


def tabs_for(context: RequestContext, instance: Instance, shown: Tab) -> list[dict[str, Any]]:
    """Return the entries of the tabs that the caller may see."""
    return [
        {
            "label": tab.label,
            "url": reverse(f"dashboard:{tab.url_name}", args=[instance.id]),
            "shown": tab.name == shown.name,
        }
        for tab in TABS
        if tab.seen_by(context, instance)
    ]


def render_tab(tab: Tab, context: RequestContext, instance: Instance, *, head: bool) -> str:
    """Return the live parts of a tab as HTML, with the ``head`` of the page or, if only its data has changed, without
    it. Empty if the caller may not see the tab.
    """
    parts: dict[str, Any] = contents.head_for(context, instance)
    templates = [_part("head"), _part("fault"), _part("move"), _part("lease")] if head else []
    if tab.seen_by(context, instance):
        parts |= tab.read(context, instance)
        templates += tab.templates
    return "".join(render_to_string(template, parts) for template in templates)
