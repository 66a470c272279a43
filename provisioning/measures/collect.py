"""Collects the hosts' reports of each minute into blocks, and adds sums for projects and the cloud.

Every step may be repeated: a point has a fixed place in its block, and reports are deleted last.
"""

import struct
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from django.db import transaction
from django.db.models import Min

from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES
from provisioning.common.database.retry import when_broken_off
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.measures.codes import encode, mean, pack, total, unpack, values
from provisioning.measures.inbound import reject
from provisioning.measures.models import CLOUD, Block, Report
from provisioning.measures.points import put
from provisioning.measures.resolutions import FINE, SLOTS_A_MINUTE

T = TypeVar("T")

LATE = 15.0
"""Seconds after the end of a minute until its reports are collected."""
BATCH = 250
"""Rows in one transaction, during which SQLite allows no other writer."""
PAUSE = 0.01
ROUND = 20.0
"""Maximum seconds of one run; the next one continues."""
HOST_SIZE, GUEST_SIZE = 2 * len(HOST_SERIES), 2 * len(GUEST_SERIES)
RECORD = 16 + GUEST_SIZE
"""Bytes of a guest in a report."""
TOLERANCE = 1.25
"""Measured values may exceed the size of their host by this factor."""

Points = dict[int, bytes]
"""Points of a subject by slot."""


@dataclass
class _Minute:
    """Points of the subjects of one minute. ``servers`` are by host and id, in bytes."""

    hosts: dict[uuid.UUID, Points] = field(default_factory=lambda: defaultdict(dict))
    servers: dict[tuple[uuid.UUID, bytes], Points] = field(default_factory=lambda: defaultdict(dict))


def collect(now: float) -> None:
    """Collect the reports of all minutes that ended before ``now``, in Unix seconds."""
    until = int((now - LATE) // 60) * SLOTS_A_MINUTE
    end = time.monotonic() + ROUND
    while time.monotonic() < end:
        oldest = Report.objects.filter(slot__lt=until).aggregate(slot=Min("slot"))["slot"]
        if oldest is None:
            return
        _collect_minute(oldest // SLOTS_A_MINUTE * SLOTS_A_MINUTE)


def records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the id, in bytes, and the point of each guest of a report."""
    for at in range(HOST_SIZE, len(data) - RECORD + 1, RECORD):
        yield data[at : at + 16], data[at + 16 : at + RECORD]


def _collect_minute(first: int) -> None:
    rows = list(
        Report.objects.filter(slot__gte=first, slot__lt=first + SLOTS_A_MINUTE).values_list(
            "id", "host_id", "slot", "data"
        )
    )
    minute = _Minute()
    for _, host_id, slot, data in rows:
        content = bytes(data)
        minute.hosts[host_id][slot] = content[:HOST_SIZE]
        for server, point in records(content):
            minute.servers[host_id, server][slot] = point
    accepted = _accepted(minute)
    store(first, accepted.hosts | {CLOUD: _sums(accepted.hosts.values(), first)}, len(HOST_SERIES))
    projects = {
        project: _sums([accepted.servers[each] for each in servers], first)
        for project, servers in accepted.projects.items()
    }
    store(first, accepted.servers | projects, len(GUEST_SERIES))
    for batch in _batches(row[0] for row in rows):
        Report.objects.filter(id__in=batch).delete()


@dataclass
class _Accepted:
    """Points by subject, and the servers of each project."""

    hosts: dict[uuid.UUID, Points]
    servers: dict[uuid.UUID, Points] = field(default_factory=dict)
    projects: dict[uuid.UUID, list[uuid.UUID]] = field(default_factory=lambda: defaultdict(list))


def _accepted(minute: _Minute) -> _Accepted:
    """Leave out hosts that no longer exist, servers that are not on the host that reports them, and values that exceed
    their host.
    """
    sizes = {
        host_id: (TOLERANCE * vcpus + 1, TOLERANCE * memory + 1)
        for host_id, vcpus, memory in Host.objects.filter(id__in=minute.hosts).values_list(
            "id", "vcpus_total", "memory_mb_total"
        )
    }
    on_hosts = {
        (host_id, instance_id.bytes): (instance_id, project_id)
        for instance_id, host_id, project_id in Instance.objects.filter(host_id__in=sizes).values_list(
            "id", "host_id", "project_id"
        )
    }
    result, liars = _Accepted({}), set[uuid.UUID]()
    for host_id, points in minute.hosts.items():
        if host_id in sizes:
            result.hosts[host_id] = points
            if not _plausible(points, sizes[host_id]):
                liars.add(host_id)
    for key, points in minute.servers.items():
        if (known := on_hosts.get(key)) is not None:
            instance_id, project_id = known
            result.servers[instance_id] = points
            result.projects[project_id].append(instance_id)
            if not _plausible(points, sizes[key[0]]):
                liars.add(key[0])
    for host_id in liars:
        reject(host_id, "more processors or memory than it has")
    return result


def _plausible(points: Points, size: Sequence[float]) -> bool:
    """Remove values of processors and memory (the first two series) that exceed the host's. Return whether nothing was
    removed.
    """
    limits = tuple(map(encode, size))
    right = True
    for slot, point in points.items():
        codes = struct.unpack_from("<2H", point)
        if codes[0] > limits[0] or codes[1] > limits[1]:
            right = False
            kept = pack([code if code <= limit else 0 for code, limit in zip(codes, limits, strict=True)])
            points[slot] = kept + point[len(kept) :]
    return right


def _sums(subjects: Iterable[Points], first: int) -> Points:
    """Return points with the sum of the subjects' means in the minute, so that a missing sample does not lower it."""
    sums: list[list[float | None]] = []
    for points in subjects:
        codes = zip(*(unpack(point) for point in points.values()), strict=True)
        sums.append([_mean(each) for each in codes])
    point = pack([encode(total(column)) for column in zip(*sums, strict=True)])
    return dict.fromkeys(range(first, first + SLOTS_A_MINUTE), point) if sums else {}


def _mean(codes: Sequence[int]) -> float | None:
    first = codes[0]
    return values()[first] if first and codes.count(first) == len(codes) else mean(codes)


def store(first: int, subjects: Mapping[uuid.UUID, Points], width: int) -> None:
    """Put points into the blocks of their subjects."""
    start, size = first // FINE.points, 2 * width
    for batch in _batches(subjects):
        _store_batch(start, {each: subjects[each] for each in batch}, size)
        time.sleep(PAUSE)


def _batches(each: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(each)
    while batch := list(islice(rest, BATCH)):
        yield batch


@when_broken_off
@transaction.atomic
def _store_batch(start: int, subjects: Mapping[uuid.UUID, Points], size: int) -> None:
    known = dict(
        Block.objects.select_for_update()
        .filter(resolution=FINE.seconds, start=start, subject_id__in=subjects)
        .values_list("subject_id", "data")
    )
    save(
        Block(
            subject_id=subject,
            resolution=FINE.seconds,
            start=start,
            width=size // 2,
            data=put(
                bytes(known.get(subject, b"")),
                {slot - start * FINE.points: point for slot, point in points.items()},
                size,
            ),
        )
        for subject, points in subjects.items()
    )


def save(blocks: Iterable[Block]) -> None:
    """Create or update blocks. Blocks of the finest resolution must be condensed afterwards."""
    Block.objects.bulk_create(
        blocks,
        update_conflicts=True,
        unique_fields=["subject_id", "resolution", "start"],
        update_fields=["data", "condensed"],
    )
