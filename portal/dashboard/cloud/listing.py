"""The list of hosts, and hosts as rows: state, bars and load; values that agents report are bounded."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.common import statuses
from portal.common.statuses import Status
from portal.dashboard.graphs import sparklines
from portal.dashboard.graphs.bars import Bar
from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, same, searched
from portal.dashboard.lists.views import ListPage
from portal.dashboard.templatetags import novella as tags
from portal.dashboard.words import wording
from provisioning.common.context import RequestContext
from provisioning.compute.selectors.hosts import state_of
from provisioning.hosts.models import Host
from provisioning.hosts.notifications import KIND
from provisioning.hosts.refused import refused_agents
from provisioning.hosts.selectors import alive, availability_zones, every_host
from provisioning.identity import policy
from provisioning.scheduler import HostState

LIST = "os_compute_api:os-hypervisors:list-detail"
CHANGE = "os_compute_api:os-services:update"
STATES = (("up", "Up"), ("down", "Down"), ("maintenance", "In maintenance"))

_WORST_FIRST = ("bad", "warn", "ok")
_LOAD = re.compile(r"load averages?: ([0-9]{1,6}\.[0-9]{1,2}),? ([0-9]{1,6}\.[0-9]{1,2}),? ([0-9]{1,6}\.[0-9]{1,2})")
_UP = re.compile(r"\bup (.{1,60}?),\s+[0-9]+ users?\b|\bup (.{1,60}?),\s+load average")


@dataclass(frozen=True, slots=True)
class DiskBar(Bar):
    """Disk space on hosts; volumes have a bar of their own."""

    @property
    def label(self) -> str:
        return "Disk"


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host, prepared for templates. ``loads`` are the averages of 1, 5 and 15 minutes; empty: unknown."""

    host: Host
    status: Status
    bars: list[Bar]
    loads: tuple[str, ...]
    may_change: bool = False
    line: SafeString = SafeString("")  # noqa: RUF009 - immutable
    """The graph of its processor usage in the last hour."""

    @property
    def load(self) -> str:
        return self.loads[0] if self.loads else ""

    @property
    def busy(self) -> bool:
        """Whether more processes want to run than there are processors."""
        return bool(self.loads) and float(self.loads[1]) > max(self.host.vcpus_total, 1)

    @property
    def up_for(self) -> str:
        """The time since its start, as ``uptime`` prints it."""
        match = _UP.search(self.host.uptime)
        return re.sub(r"\s+", " ", match[1] or match[2]) if match else ""

    @property
    def clock(self) -> str:
        """The difference of its clock from the portal's."""
        ahead = self.host.clock_difference
        if ahead is None:
            return "unknown"
        if abs(ahead) < 0.1:
            return "correct"
        return f"{wording.duration(abs(ahead))} {'ahead' if ahead > 0 else 'behind'}"

    @property
    def order(self) -> tuple[int, float, str]:
        """Sorts worse and fuller hosts first."""
        fullest = max((bar.used / bar.limit for bar in self.bars if bar.limit > 0), default=0.0)
        return _WORST_FIRST.index(self.status.tone), -fullest, self.host.name


def host_rows(hosts: Iterable[Host], now: datetime, *, may_change: bool = False) -> list[HostRow]:
    rows = list(hosts)
    lines = sparklines.of_hosts(rows)
    return [
        HostRow(
            host,
            statuses.host_status(host, now),
            bars_of([state_of(host, now)]),
            _loads(host),
            may_change,
            lines.get(host.id, SafeString("")),
        )
        for host in rows
    ]


def bars_of(states: Sequence[HostState]) -> list[Bar]:
    """Return the allocated resources of these hosts together: processors, memory (MiB) and disk (GiB)."""
    return [
        Bar("cores", sum(max(each.vcpus_limit, 0) for each in states), sum(each.vcpus_allocated for each in states)),
        Bar(
            "ram",
            sum(max(each.memory_mb_limit, 0) for each in states),
            sum(each.memory_mb_allocated for each in states),
        ),
        DiskBar(
            "gigabytes",
            sum(max(each.disk_gb_limit, 0) for each in states),
            sum(each.disk_gb_allocated for each in states),
        ),
    ]


def _loads(host: Host) -> tuple[str, ...]:
    match = _LOAD.search(host.uptime)
    return match.groups() if match else ()


def _state(_: RequestContext, value: str) -> Q:
    if value == "maintenance":
        return Q(enabled=False)
    up = alive(timezone.now())
    return up if value == "up" else ~up


def _zones(_: RequestContext) -> Iterable[tuple[str, str]]:
    return [(zone, zone) for zone in availability_zones()]


def _rows(context: RequestContext, hosts: Sequence[Host]) -> Sequence[HostRow]:
    return host_rows(hosts, timezone.now(), may_change=policy.allows(context, CHANGE))


def _name(row: HostRow) -> object:
    return cells.record(row.host, "dashboard:host", below=row.host.availability_zone)


def _status(row: HostRow) -> object:
    return cells.status(row.status) + cells.sub(cells.bdi("" if row.host.enabled else row.host.disabled_reason))


def _load(row: HostRow) -> object:
    if not row.loads:
        return ""
    title = f"Load averages of 1, 5 and 15 minutes: {', '.join(row.loads)}"
    return format_html('<span class="{}" title="{}">{}</span>', "meter-over" if row.busy else "", title, row.load)


def _actions(row: HostRow) -> object:
    if not row.may_change:
        return ""
    sign, title, to = (
        ("pause-circle", "Start maintenance", "dashboard:host_maintenance")
        if row.host.enabled
        else ("play-circle", "End maintenance", "dashboard:host_maintenance_end")
    )
    return cells.button(sign, title, row.host.name, to, row.host.id, label=f"{title} of {{}}")


def _bar(key: str, label: str, number: int) -> Column:
    """Return the column of a bar; CSV files have the allocated amount."""
    return Column(
        key,
        label,
        lambda row: tags.meter(row.bars[number], bare=True),
        sort=f"{key}_allocated",
        plain=lambda row: row.bars[number].used,
        css="usage",
        largest_first=True,
    )


HOSTS = RecordList[Host](
    key="hosts",
    model=Host,
    one="host",
    noun="hosts",
    rule=LIST,
    row_id="host",
    records=lambda context, _: every_host(context, LIST),
    rows=_rows,
    default="name",
    columns=(
        Column("name", "Host", _name, sort="name", plain=lambda row: row.host.name, css="name", titled=False),
        Column("state", "State", _status, plain=lambda row: row.status.word, titled=False),
        _bar("vcpus", "vCPUs", 0),
        _bar("memory_mb", "Memory", 1),
        _bar("disk_gb", "Disk", 2),
        Column("load", "Load", _load, plain=lambda row: row.load, css="num"),
        Column(
            "instances",
            "Instances",
            lambda row: row.host.instances_allocated,
            sort="instances_allocated",
            css="num",
            largest_first=True,
        ),
        Column(
            "zone", "Zone", lambda row: cells.bdi(row.host.availability_zone), sort="availability_zone", optional=True
        ),
        Column("agent", "Agent", lambda row: cells.bdi(row.host.agent_version), sort="agent_version", optional=True),
        Column("clock", "Clock", lambda row: row.clock, sort="clock_difference", optional=True),
        Column(
            "seen",
            "Last heartbeat",
            lambda row: cells.when(row.host.last_seen_at, "seconds"),
            sort="last_seen_at",
            plain=lambda row: row.host.last_seen_at,
            css="muted num text-nowrap",
            optional=True,
        ),
        Column("address", "Address", lambda row: cells.mono(row.host.host_ip), sort="host_ip", optional=True),
    ),
    actions=_actions,
    search=searched("name", "host_ip"),
    find="Find by name or address",
    filters=(
        Filter("state", "State", fixed(*STATES), _state, quick=True),
        Filter("zone", "Zone", _zones, same("availability_zone"), closed=False),
    ),
    empty=Empty(
        "hdd-rack", "No hosts yet", "A host runs the instances. Join one with a token, which its agent uses once."
    ),
    create=HeadLink("Join a host", "admin:hosts_host_join", rule="novella:hosts:join", first="Join a host"),
    kinds=frozenset({KIND}),
)


class HostList(ListPage):
    """All hosts, and the agents that were refused lately."""

    records = HOSTS
    template = "dashboard/cloud/hosts.html"
    lead = "The hypervisors and the resources that their instances use."

    def extra_context(self) -> Mapping[str, Any]:
        return {"refused": refused_agents(self.context, LIST)}
