"""Hosts as rows: state, bars and load; values that agents report are bounded."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString

from portal.common import statuses
from portal.common.statuses import Status
from portal.dashboard.graphs import sparklines
from portal.dashboard.graphs.bars import Bar
from portal.dashboard.words import wording
from provisioning.compute.selectors.hosts import state_of
from provisioning.hosts.models import Host
from provisioning.scheduler import HostState

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
