"""django-q2's cluster as one worker group that dies as a whole, loses nothing, and reads signed JSON only.

Five internals of django-q2 are replaced (its version is pinned exactly, and tests kill every kind of process):

* ``Sentinel.reincarnate``: the death of an idle worker, of the pusher or of the monitor can leave a lock of the inner
  queue taken for ever, so it ends the group, and the supervisor starts it again; the death of a worker with a job in
  hand gives the job back at once
* ``pusher.SignedPackage``: a message is unsealed and checked against the registered jobs instead of unpickled
* every process follows its parent: when that dies, however, the kernel kills it too, so that no orphan goes on
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any

import django_q.cluster
import django_q.pusher
from django.db import connections
from django.utils import timezone
from django_q.conf import Conf
from django_q.signing import BadSignature

from provisioning.jobs import dispatch, registry, worker_groups
from provisioning.jobs.broker import Broker
from provisioning.jobs.message import MessageError, verify
from provisioning.jobs.queue import Taken
from provisioning.jobs.watchdog import Watchdog

STUCK = 70
"""Exit status of a group that ended itself to be started again (EX_SOFTWARE)."""
TICK = 0.2
KEEPER_STOPS_WITHIN = 5.0
_PR_SET_PDEATHSIG = 1

logger = logging.getLogger(__name__)


class SignedMessages:
    """In the place of django-q2's SignedPackage at the pusher: from a signed message to the task a worker runs."""

    group = ""

    @classmethod
    def loads(cls, taken: Taken) -> dict[str, Any]:
        """Read one message; raises BadSignature, after which the message is removed."""
        try:
            message = verify(taken.text)
        except MessageError as error:
            raise BadSignature(f"Message {taken.id} is not ours: {error}") from error
        known = registry.jobs.get(message.job)
        if known is None or known.topic != message.topic:
            raise BadSignature(f"Message {taken.id} names the job {message.job!r}, which is not registered.")
        return {
            "id": str(taken.id),
            "name": message.job,
            "func": dispatch.run,
            "args": (taken.id, cls.group, message),
            "kwargs": {},
            "started": timezone.now(),
            "ack_failure": True,
        }


_original_reincarnate = django_q.cluster.Sentinel.reincarnate


def _reincarnate(sentinel: Any, process: Any) -> Any:
    """Replace a dead process, or end the group when it may have left a lock behind."""
    if process in (sentinel.monitor, sentinel.pusher):
        logger.critical("The %s died; the group ends.", "pusher" if process is sentinel.pusher else "monitor")
        os._exit(STUCK)
    if process.exitcode not in (0, None):
        if process.timer.value == -1:
            logger.critical("An idle worker died with status %s; the group ends.", process.exitcode)
            os._exit(STUCK)
        process.join()
        try:
            freed = worker_groups.give_back_of_dead_workers(SignedMessages.group)
        except Exception:
            logger.exception("The job of a dead worker cannot be given back now; the watchdog will.")
        else:
            logger.error("A worker died with status %s; %s jobs were given back.", process.exitcode, freed)
    return _original_reincarnate(sentinel, process)


def _follow_forks() -> None:
    """Let every child that this process and its children fork be killed by the kernel when its parent dies."""
    libc = ctypes.CDLL(None)
    parent = 0

    def note_parent() -> None:
        nonlocal parent
        parent = os.getpid()

    def follow_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel knew that we follow it
            os._exit(STUCK)

    os.register_at_fork(before=note_parent, after_in_child=follow_parent)


def _keep(group: str, topics: list[str], periodic: bool) -> None:  # noqa: FBT001 - a process's plain arguments
    Watchdog(group, topics, periodic=periodic).run()


def run_group(topics: list[str], workers: int, *, periodic: bool) -> int:
    """Run a worker group in this process and its children until SIGTERM or SIGINT; returns the exit status.

    On the signal the jobs in hand are finished first.  A status other than 0 asks to be started again.
    """
    group = worker_groups.name_of_group()
    Conf.WORKERS = Conf.QUEUE_LIMIT = workers
    SignedMessages.group = group
    django_q.pusher.SignedPackage = SignedMessages
    django_q.cluster.Sentinel.reincarnate = _reincarnate
    worker_groups.forget_dead(judge_others=False)
    worker_groups.beat(group, topics)  # before any message is taken in its name
    connections.close_all()
    gc.collect()
    gc.freeze()  # what is shared with the children stays shared
    _follow_forks()
    watchdog = get_context("fork").Process(target=_keep, args=[group, topics, periodic], name="watchdog")
    watchdog.start()
    cluster = django_q.cluster.Cluster(Broker(topics=[*topics, worker_groups.ping_key(group)], group=group))
    connections.close_all()
    cluster.start()
    while cluster.sentinel.is_alive() and watchdog.is_alive():
        time.sleep(TICK)
    status = STUCK
    if not watchdog.is_alive():
        logger.critical("The group's watchdog ended with status %s; the group ends.", watchdog.exitcode)
        os._exit(STUCK)  # the children follow
    if cluster.sentinel.exitcode == 0:
        status = 0
    _end(watchdog)
    return status


def _end(watchdog: BaseProcess) -> None:
    watchdog.terminate()
    watchdog.join(KEEPER_STOPS_WITHIN)
    if watchdog.is_alive():
        watchdog.kill()
        watchdog.join()
