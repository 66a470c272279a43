"""Reads measures: the points of a subject in a span, short lines for lists, and the newest values of hosts."""

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from django.db.models import IntegerField, Q, QuerySet, Sum

from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES
from provisioning.common.context import RequestContext
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.models import Instance
from provisioning.compute.selectors import instance_for
from provisioning.hosts.models import Host
from provisioning.measures.codes import mean, mean_of, values
from provisioning.measures.collect import HOST_SIZE, records
from provisioning.measures.models import CLOUD, Block, Report
from provisioning.measures.points import Columns, columns, condense, first_means
from provisioning.measures.pools import POOL_SERIES
from provisioning.measures.resolutions import FINE, HOUR, MIDDLE, RESOLUTIONS, SPANS, Span
from provisioning.volumes.models import StoragePool

DEFAULT = SPANS["1h"]
LINE_POINTS = 12
"""Points of a line in a list: one for five minutes of the last hour, or for two hours of the last day."""
SIZE = ("vcpus_total", "memory_mb_total", "disk_gb_total")
NEWEST = 120
"""Seconds after which a host's newest values are no longer shown as its current ones."""


Point = TypeVar("Point")
Targets = list[tuple[list[int], list[int]]]
"""For each series the codes of its means and of its maximums."""


@dataclass(frozen=True, slots=True)
class Series:
    """Means and maximums of consecutive points, of which the first begins at the start of the measures."""

    name: str
    means: Sequence[float | None]
    maximums: Sequence[float | None]

    @property
    def empty(self) -> bool:
        return all(value is None for value in self.means)


@dataclass(frozen=True, slots=True)
class Measures:
    """The series of a subject; ``start`` is Unix time and ``step`` the seconds of a point."""

    span: Span
    start: int
    step: int
    series: Mapping[str, Series]

    @property
    def empty(self) -> bool:
        return all(each.empty for each in self.series.values())


def measures_for(
    context: RequestContext, instance_id: str | uuid.UUID, span: Span = DEFAULT, points: int | None = None
) -> Measures:
    """Return the measures of a server of the caller's project. Raises NotFoundError."""
    return of_server(instance_for(context, instance_id), span, points=points)


def of_server(instance: Instance, span: Span = DEFAULT, points: int | None = None) -> Measures:
    """Return the measures of a server that the caller may see. With ``points``, consecutive points are put together so
    that there are at most as many.
    """
    return _measures(instance.id, GUEST_SERIES, span, points, host_id=instance.host_id)


def of_host(host_id: uuid.UUID, span: Span = DEFAULT, points: int | None = None) -> Measures:
    """Return the measures of a host."""
    return _measures(host_id, HOST_SERIES, span, points, host_id=host_id)


def of_project(project_id: uuid.UUID, span: Span = DEFAULT, points: int | None = None) -> Measures:
    """Return the sums of a project's servers."""
    return _measures(project_id, GUEST_SERIES, span, points)


def of_cloud(span: Span = DEFAULT, points: int | None = None) -> Measures:
    """Return the sums of all hosts."""
    return _measures(CLOUD, HOST_SERIES, span, points)


def of_pool(pool_id: uuid.UUID, span: Span = DEFAULT, points: int | None = None) -> Measures:
    """Return the measures of a storage pool."""
    return _measures(pool_id, POOL_SERIES, span, points)


def pool_with_id(pool_id: str | uuid.UUID) -> StoragePool:
    """Return a storage pool; the caller has checked a rule of operators. Raises NotFoundError."""
    pool = StoragePool.objects.filter(id=read_id(pool_id) or NOBODY).first()
    if pool is None:
        raise NotFoundError("There is no such pool.")
    return pool


def host_with_id(host_id: uuid.UUID) -> Host:
    """Return a host; the caller has checked a rule of operators. Raises NotFoundError."""
    host = Host.objects.filter(id=host_id).first()
    if host is None:
        raise NotFoundError("There is no such host.")
    return host


def size_of_cloud() -> tuple[int, int, int]:
    """Return vCPUs, MiB and GiB of all hosts together."""
    sums = Host.objects.aggregate(*(Sum(name) for name in SIZE))
    vcpus, memory, disk = (int(sums[f"{name}__sum"] or 0) for name in SIZE)
    return vcpus, memory, disk


def first_lines(
    subject_ids: Collection[uuid.UUID], *, width: int, seconds: int = HOUR
) -> dict[uuid.UUID, list[float | None]]:
    """Return for each subject its first series in the last ``seconds``, as LINE_POINTS means; one query.

    Subjects without measures are left out. ``width`` is the number of their series.
    """
    many = seconds // MIDDLE.seconds
    first, each = int(time.time()) // MIDDLE.seconds - many, many // LINE_POINTS
    result: dict[uuid.UUID, list[float | None]] = {}
    for subject, resolution, start, data in _blocks(subject_ids, MIDDLE.seconds, first * MIDDLE.seconds):
        means = result.setdefault(subject, [None] * many)
        number = start * (MIDDLE.points if resolution == MIDDLE.seconds else FINE.block // MIDDLE.seconds)
        _place(means, first_means(data, width, resolution), number, first)
    return {
        subject: [mean_of(means[at : at + each]) for at in range(0, many, each)] for subject, means in result.items()
    }


def newest_of_hosts() -> dict[str, dict[str, float]]:
    """Return the newest values of each host by name, with two queries. Hosts without samples in the last NEWEST seconds
    are left out.
    """
    since = int(time.time() - NEWEST) // FINE.seconds
    newest: dict[uuid.UUID, bytes] = {}
    for host_id, data in Report.objects.filter(slot__gte=since).order_by("slot").values_list("host_id", "data"):
        newest[host_id] = bytes(data[:HOST_SIZE])
    names = dict(Host.objects.filter(id__in=newest).values_list("id", "name"))
    return {
        names[host_id]: {
            name: values()[column.means[0]]
            for name, column in zip(HOST_SERIES, columns(point, len(HOST_SERIES), FINE.seconds), strict=True)
            if column.means[0]
        }
        for host_id, point in newest.items()
        if host_id in names
    }


def _measures(
    subject_id: uuid.UUID, series: Sequence[str], span: Span, points: int | None, *, host_id: uuid.UUID | None = None
) -> Measures:
    resolution, width = span.resolution, len(series)
    step = resolution.seconds
    first = int(time.time()) // step - span.points + 1
    targets: Targets = [([0] * span.points, [0] * span.points) for _ in series]
    for _, stored, start, data in _blocks([subject_id], step, first * step):
        if stored == step:
            content, number = columns(data, width, step), start * resolution.points
        else:
            content, number = _condensed(data, width, step), start * FINE.block // step
        for target, source in zip(targets, content, strict=True):
            _place(target[0], source.means, number, first)
            _place(target[1], source.maximums, number, first)
    if resolution is FINE and host_id is not None:
        _add_reports(targets, subject_id, host_id, first)
    grouped = 1 if points is None else -(-span.points // points)
    return Measures(
        span,
        first * step,
        step * grouped,
        {name: _series(name, Columns(*column), grouped) for name, column in zip(series, targets, strict=True)},
    )


def _blocks(subject_ids: Collection[uuid.UUID], step: int, since: int) -> list[tuple[uuid.UUID, int, int, bytes]]:
    """Return subject, resolution, start and data of blocks: all blocks of a resolution, and the blocks of FINE that are
    not condensed yet.
    """
    resolution = next(each for each in RESOLUTIONS if each.seconds == step)
    query = _FINE_BLOCKS if resolution is FINE else _BLOCKS
    rows = query(ids=subject_ids, step=step, first=since // resolution.block)
    return [(*row, bytes(data)) for *row, data in rows]  # type: ignore[misc]


def _blocks_of(condition: Q, ids: Any) -> QuerySet[Block, tuple[uuid.UUID, int, int, Any]]:
    rows = Block.objects.filter(condition, Among("subject_id", ids))
    return rows.values_list("subject_id", "resolution", "start", "data")


_FINE_BLOCKS = Prepared(
    lambda ids, step, first: _blocks_of(Q(resolution=step, start__gte=first), ids),
    ids=Ids(),
    step=IntegerField(),
    first=IntegerField(),
)
_BLOCKS = Prepared(
    lambda ids, step, first: _blocks_of(
        Q(resolution=step, start__gte=first) | Q(resolution=FINE.seconds, condensed=False), ids
    ),
    ids=Ids(),
    step=IntegerField(),
    first=IntegerField(),
)


def _condensed(data: bytes, width: int, step: int) -> list[Columns]:
    minutes, whole = condense(data, width)
    return columns(b"".join(minutes) if step == MIDDLE.seconds else whole, width, step)


def _add_reports(targets: Targets, subject_id: uuid.UUID, host_id: uuid.UUID, first: int) -> None:
    """Add the points that are not collected yet."""
    for slot, data in Report.objects.filter(host_id=host_id, slot__gte=first).values_list("slot", "data"):
        content = bytes(data)
        point = (
            content[:HOST_SIZE]
            if subject_id == host_id
            else next((point for server, point in records(content) if server == subject_id.bytes), b"")
        )
        for target, source in zip(targets, columns(point, len(targets), FINE.seconds), strict=True):
            _place(target[0], source.means, slot, first)
            _place(target[1], source.maximums, slot, first)


def _place(target: list[Point], source: Sequence[Point], number: int, first: int) -> None:
    """Copy the points that fall into the target; ``number`` and ``first`` are the numbers of their first points."""
    at = number - first
    source = source[max(0, -at) :][: len(target) - max(0, at)]
    target[max(0, at) : max(0, at) + len(source)] = source


def _series(name: str, column: Columns, grouped: int) -> Series:
    table = values()
    if grouped == 1:
        means, maximums = ([table[code] if code else None for code in codes] for codes in column)
        return Series(name, means, maximums)
    starts = range(0, len(column.means), grouped)
    peaks = [max(column.maximums[at : at + grouped]) for at in starts]
    return Series(
        name,
        [mean(column.means[at : at + grouped]) for at in starts],
        [table[code] if code else None for code in peaks],
    )


def stale_hosts(alive: Collection[uuid.UUID], now: float, seconds: int) -> set[uuid.UUID]:
    """Return the hosts among ``alive`` that sent samples in the last 30 days, but not in the last ``seconds``."""
    since = int(now - seconds)
    known = Block.objects.filter(subject_id__in=alive).values_list("subject_id", flat=True).distinct()
    fresh = chain(
        Block.objects.filter(subject_id__in=alive, resolution=FINE.seconds, start__gte=since // FINE.block).values_list(
            "subject_id", flat=True
        ),
        Report.objects.filter(host_id__in=alive, slot__gte=since // FINE.seconds).values_list("host_id", flat=True),
    )
    return set(known) - set(fresh)
