"""Master process of a worker group: it starts the watchdog and django-q2's cluster, and ends when one of them ends.

When the master or another parent process of the group dies for any reason, the kernel kills its children, so that there
are no orphans.
"""

import ctypes
import logging
import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess

from django.db import connections

from provisioning.common.processes.before_fork import keep_shared
from provisioning.jobs.queue import worker_groups
from provisioning.jobs.queue.broker import Broker
from provisioning.jobs.queue.worker_groups import STUCK
from provisioning.jobs.workers.django_q_internals import make_cluster
from provisioning.jobs.workers.watchdog import Watchdog

TICK = 0.2
WATCHDOG_STOPS_WITHIN = 5.0
_PR_SET_PDEATHSIG = 1

logger = logging.getLogger(__name__)


def run_group(topics: list[str], workers: int, *, periodic: bool) -> int:
    """Run a worker group in this process and its children until SIGTERM or SIGINT; returns the exit status.

    Running jobs are finished after the signal. A status other than 0 requests a restart.
    """
    group = worker_groups.name_of_group()
    worker_groups.forget_dead(judge_others=False)
    worker_groups.beat(group, topics)  # before it takes any message
    connections.close_all()
    keep_shared()
    _follow_forks()
    watchdog = get_context("fork").Process(target=_watch, args=[group, topics, periodic], name="watchdog")
    watchdog.start()
    cluster = make_cluster(Broker(topics=[*topics, worker_groups.ping_key(group)], group=group), workers)
    connections.close_all()
    cluster.start()
    while cluster.sentinel.is_alive() and watchdog.is_alive():
        time.sleep(TICK)
    if not watchdog.is_alive():
        logger.critical("The group's watchdog ended with status %s; the group ends.", watchdog.exitcode)
        os._exit(STUCK)  # this also ends the children
    _end(watchdog)
    return 0 if cluster.sentinel.exitcode == 0 else STUCK


def _watch(group: str, topics: list[str], periodic: bool) -> None:  # noqa: FBT001 - arguments of a process
    Watchdog(group, topics, periodic=periodic).run()


def _follow_forks() -> None:
    """Let the kernel kill every forked child of this process and its children when the child's parent dies."""
    libc = ctypes.CDLL(None)
    parent = 0

    def note_parent() -> None:
        nonlocal parent
        parent = os.getpid()

    def follow_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before prctl
            os._exit(STUCK)

    os.register_at_fork(before=note_parent, after_in_child=follow_parent)


def _end(watchdog: BaseProcess) -> None:
    watchdog.terminate()
    watchdog.join(WATCHDOG_STOPS_WITHIN)
    if watchdog.is_alive():
        watchdog.kill()
        watchdog.join()
