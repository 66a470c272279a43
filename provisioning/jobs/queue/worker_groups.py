"""Worker groups: their names, their beats, and the cleanup after dead groups."""

import functools
import os
import socket
from datetime import timedelta
from pathlib import Path

from django.db.models import F
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.jobs.models import JobRun, Lease, WorkerBeat
from provisioning.jobs.queue import rows

STUCK = 70
"""Exit status of a group that ended itself to be restarted (EX_SOFTWARE)."""
SILENT_AFTER = 60.0
"""Seconds without a beat after which a group on another machine counts as dead."""


# ----- processes ------------------------------------------------------------------------------------------------------


def process_mark(pid: int) -> str:
    """Return ``<pid>.<start time>``, which is unique even if the pid is reused; empty when the process does not run."""
    state, start = _state_and_start(pid)
    return "" if state in {"", "Z", "X"} else f"{pid}.{start}"


def is_running(mark: str) -> bool:
    """Whether the process of this mark still runs on this machine."""
    return process_mark(int(mark.partition(".")[0])) == mark


def zombies_below(pid: int) -> set[str]:
    """Return ``<pid>.<start time>`` of the dead descendants of a process that have not been reaped."""
    result, left = set(), [pid]
    while left:
        parent = left.pop()
        try:
            children = [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
        except OSError:
            continue
        left += children
        for child in children:
            state, start = _state_and_start(child)
            if state == "Z":
                result.add(f"{child}.{start}")
    return result


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return the letter of a process's state and its start time in clock ticks; both are empty if there is no such
    process.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


@functools.cache
def machine() -> str:
    """Return an identifier of this machine for the scope of its pids: host name, boot, pid namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    namespace = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    return f"{socket.gethostname()[:40]}:{boot}:{namespace}"


def name_of_group(pid: int | None = None) -> str:
    """Return the name of the worker group whose master process has this pid (default: this process)."""
    return f"{machine()}:{process_mark(pid or os.getpid())}"


def ping_key(group: str) -> str:
    """Return the topic of a group's own pings."""
    return f"ping:{group}"


# ----- beats ----------------------------------------------------------------------------------------------------------


def beat(group: str, topics: list[str]) -> None:
    now = timezone.now()
    if not WorkerBeat.objects.filter(name=group).update(beat_at=now):
        WorkerBeat.objects.create(name=group, topics=",".join(topics)[:200], beat_at=now)


def answer_ping(group: str) -> None:
    """Record that a worker of the group took a message from the queue and ran it."""
    WorkerBeat.objects.filter(name=group).update(ping_at=timezone.now())


def count_failure(group: str) -> None:
    WorkerBeat.objects.filter(name=group).update(jobs_failed=F("jobs_failed") + 1)


# ----- dead groups and workers ---------------------------------------------------------------------------------------


def forget(group: str) -> int:
    """Requeue the messages of a dead group and delete its records; returns the number of messages."""
    freed = rows.requeue(JobRun.objects.filter(group=group))
    Lease.objects.filter(holder=group).update(expires_at=timezone.now(), holder="")
    pings = OrmQ.objects.filter(key=ping_key(group))
    JobRun.objects.filter(message_id__in=list(pings.values_list("id", flat=True))).delete()
    pings.delete()
    WorkerBeat.objects.filter(name=group).delete()
    return freed


def forget_dead(*, judge_others: bool) -> int:
    """Forget the groups of this machine whose master process has ended; return the number of requeued messages.

    ``judge_others``: also forget groups of other machines that were silent for ``SILENT_AFTER`` seconds. It must be
    False for that time after this process itself was disconnected from the database.
    """
    known = dict(WorkerBeat.objects.values_list("name", "beat_at"))
    holders = JobRun.objects.exclude(group="").values_list("group", flat=True).distinct()
    silent_since = timezone.now() - timedelta(seconds=SILENT_AFTER)
    freed = 0
    for group in {*known, *holders}:
        place, _, mark = group.rpartition(":")
        if place == machine():
            dead = not is_running(mark)
        else:
            dead = judge_others and (group not in known or known[group] < silent_since)
        if dead:
            freed += forget(group)
    return freed


def requeue_of_dead_workers(group: str) -> int:
    """Requeue the messages that dead workers of this live group were running; returns their number."""
    begun = JobRun.objects.filter(group=group).exclude(worker="").values_list("worker", flat=True).distinct()
    dead = [worker for worker in begun if not is_running(worker)]
    return rows.requeue(JobRun.objects.filter(group=group, worker__in=dead)) if dead else 0


def requeue_after_death(group: str) -> int:
    """Requeue the messages that a worker may have had when it died, started or not; returns their number.

    Messages that were not started may also be in the group's own queue; ``rows.start`` lets only one copy start.
    """
    return requeue_of_dead_workers(group) + rows.requeue(JobRun.objects.filter(group=group, worker=""))
