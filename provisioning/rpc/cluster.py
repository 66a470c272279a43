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

from provisioning.rpc import dispatch, groups, registry
from provisioning.rpc.broker import Broker
from provisioning.rpc.envelope import EnvelopeError, unseal
from provisioning.rpc.keeper import Keeper
from provisioning.rpc.queue import Taken

STUCK = 70
"""Exit status of a group that ended itself to be started again (EX_SOFTWARE)."""
TICK = 0.2
KEEPER_STOPS_WITHIN = 5.0
_PR_SET_PDEATHSIG = 1

logger = logging.getLogger(__name__)


class SealedPackage:
    """In the place of django-q2's SignedPackage at the pusher: from a sealed message to the task a worker runs."""

    group = ""

    @classmethod
    def loads(cls, taken: Taken) -> dict[str, Any]:
        """Read one message; raises BadSignature, after which the message is removed."""
        try:
            envelope = unseal(taken.text)
        except EnvelopeError as error:
            message = f"Message {taken.id} is not ours: {error}"
            raise BadSignature(message) from error
        known = registry.jobs.get(envelope.job)
        if known is None or known.topic != envelope.topic:
            message = f"Message {taken.id} names the job {envelope.job!r}, which is not registered."
            raise BadSignature(message)
        return {
            "id": str(taken.id),
            "name": envelope.job,
            "func": dispatch.run,
            "args": (taken.id, cls.group, envelope),
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
            freed = groups.give_back_of_dead_workers(SealedPackage.group)
        except Exception:
            logger.exception("The job of a dead worker cannot be given back now; the keeper will.")
        else:
            logger.error("A worker died with status %s; %s jobs were given back.", process.exitcode, freed)
    return _original_reincarnate(sentinel, process)


def _follow_parent() -> None:
    """In a forked child: be killed when the parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _keep(group: str, topics: list[str], periodic: bool) -> None:  # noqa: FBT001 - a process's plain arguments
    Keeper(group, topics, periodic=periodic).run()


def run_group(topics: list[str], workers: int, *, periodic: bool) -> int:
    """Run a worker group in this process and its children until SIGTERM or SIGINT; returns the exit status.

    On the signal the jobs in hand are finished first.  A status other than 0 asks to be started again.
    """
    group = groups.name_of_group()
    Conf.WORKERS = Conf.QUEUE_LIMIT = workers
    SealedPackage.group = group
    django_q.pusher.SignedPackage = SealedPackage
    django_q.cluster.Sentinel.reincarnate = _reincarnate
    groups.forget_dead(judge_others=False)
    groups.beat(group, topics)  # before any message is taken in its name
    connections.close_all()
    gc.collect()
    gc.freeze()  # what is shared with the children stays shared
    os.register_at_fork(after_in_child=_follow_parent)
    keeper = get_context("fork").Process(target=_keep, args=[group, topics, periodic], name="keeper")
    keeper.start()
    cluster = django_q.cluster.Cluster(Broker(topics=[*topics, groups.ping_key(group)], group=group))
    connections.close_all()
    cluster.start()
    while cluster.sentinel.is_alive() and keeper.is_alive():
        time.sleep(TICK)
    status = STUCK
    if not keeper.is_alive():
        logger.critical("The group's keeper ended with status %s; the group ends.", keeper.exitcode)
        os._exit(STUCK)  # the children follow
    if cluster.sentinel.exitcode == 0:
        status = 0
    _end(keeper)
    return status


def _end(keeper: BaseProcess) -> None:
    keeper.terminate()
    keeper.join(KEEPER_STOPS_WITHIN)
    if keeper.is_alive():
        keeper.kill()
        keeper.join()
