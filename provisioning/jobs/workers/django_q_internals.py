"""The only module that patches django-q2.

Its version is pinned exactly, and ``tests/jobs/test_django_q_internals.py`` fails when another version breaks a name
below.

Replaced:

* ``cluster.Sentinel.reincarnate(process)``: the death of an idle worker, of the pusher or of the monitor can leave a
  lock of the inner queues locked forever, so the group ends and the supervisor restarts it. The death of a worker
  with a job requeues the job immediately.
* ``pusher.SignedPackage``: the pusher calls its ``loads`` with the result of ``Broker.dequeue``. A message is not
  unpickled; its signature is verified, and its job must be registered. After BadSignature the pusher calls
  ``Broker.fail``.

Used, although django-q2 does not document it:

* ``conf.Conf.WORKERS`` and ``Conf.QUEUE_LIMIT``, which the sentinel reads when it starts
* ``cluster.Cluster(broker)``, its ``start`` and its process ``sentinel``, which ends with status 0 after SIGTERM
* ``Sentinel.monitor``, ``Sentinel.pusher``, and the ``timer`` of each worker's process: -1 while the worker is idle
* the keys of the task that a worker runs: ``id``, ``name``, ``func``, ``args``, ``kwargs``, ``started`` and
  ``ack_failure``

Used elsewhere in this package: the columns ``key``, ``payload`` and ``lock`` of ``models.OrmQ``, the methods of
``brokers.orm.ORM``, and ``exceptions.TimeoutException``, which a worker's alarm raises in a job.
"""

import logging
import os
from typing import Any

import django_q.cluster
import django_q.pusher
from django.utils import timezone
from django_q.conf import Conf
from django_q.signing import BadSignature

from provisioning.jobs import registry
from provisioning.jobs.queue import worker_groups
from provisioning.jobs.queue.broker import Broker
from provisioning.jobs.queue.cast import MessageError, verify
from provisioning.jobs.queue.rows import ClaimedMessage
from provisioning.jobs.queue.worker_groups import STUCK
from provisioning.jobs.workers import dispatch

IDLE = -1
"""The timer of an idle worker."""

logger = logging.getLogger(__name__)


class SignedMessages:
    """Replaces django-q2's SignedPackage in the pusher: converts a signed message to the task that a worker runs."""

    group = ""

    @classmethod
    def loads(cls, taken: ClaimedMessage) -> dict[str, Any]:
        """Read a message. Raises BadSignature, after which the message is removed."""
        try:
            message = verify(taken.text)
        except MessageError as error:
            raise BadSignature(f"Message {taken.id} is not a message of Novella: {error}") from error
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
    """Replace a dead process. If the process may have left a lock locked, end the group instead."""
    if process in (sentinel.monitor, sentinel.pusher):
        logger.critical("The %s died; the group ends.", "pusher" if process is sentinel.pusher else "monitor")
        os._exit(STUCK)
    if process.exitcode not in (0, None):
        if process.timer.value == IDLE:
            logger.critical("An idle worker died with status %s; the group ends.", process.exitcode)
            os._exit(STUCK)
        process.join()
        try:
            freed = worker_groups.requeue_after_death(SignedMessages.group)
        except Exception:
            logger.exception("The job of a dead worker cannot be requeued now; the watchdog will requeue it.")
        else:
            logger.error("A worker died with status %s; %s jobs were requeued.", process.exitcode, freed)
    return _original_reincarnate(sentinel, process)


def make_cluster(broker: Broker, workers: int) -> django_q.cluster.Cluster:
    """Patch django-q2 in this process, and return an unstarted cluster for the broker's group."""
    Conf.WORKERS = Conf.QUEUE_LIMIT = workers
    SignedMessages.group = broker.group
    django_q.pusher.SignedPackage = SignedMessages
    django_q.cluster.Sentinel.reincarnate = _reincarnate
    return django_q.cluster.Cluster(broker)
