"""The master process of a worker group: it starts the watchdog and django-q2's cluster, and ends with either of them.

Every process follows its parent: when that dies, however, the kernel kills it too, so that no orphan goes on.
"""

import ctypes
import gc
import logging
import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess

from django.db import connections

from provisioning.jobs import worker_groups
from provisioning.jobs.broker import Broker
from provisioning.jobs.django_q_internals import make_cluster
from provisioning.jobs.watchdog import Watchdog
from provisioning.jobs.worker_groups import STUCK

TICK = 0.2
WATCHDOG_STOPS_WITHIN = 5.0
_PR_SET_PDEATHSIG = 1

logger = logging.getLogger(__name__)


def run_group(topics: list[str], workers: int, *, periodic: bool) -> int:
    """Run a worker group in this process and its children until SIGTERM or SIGINT; returns the exit status.

    On the signal the jobs in hand are finished first.  A status other than 0 asks to be started again.
    """
    group = worker_groups.name_of_group()
    worker_groups.forget_dead(judge_others=False)
    worker_groups.beat(group, topics)  # before any message is taken in its name
    connections.close_all()
    gc.collect()
    gc.freeze()  # what is shared with the children stays shared
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
        os._exit(STUCK)  # the children follow
    _end(watchdog)
    return 0 if cluster.sentinel.exitcode == 0 else STUCK


def _watch(group: str, topics: list[str], periodic: bool) -> None:  # noqa: FBT001 - a process's plain arguments
    Watchdog(group, topics, periodic=periodic).run()


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


def _end(watchdog: BaseProcess) -> None:
    watchdog.terminate()
    watchdog.join(WATCHDOG_STOPS_WITHIN)
    if watchdog.is_alive():
        watchdog.kill()
        watchdog.join()
