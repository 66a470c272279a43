"""Marks networks, routers, floating IPs and security groups whose documents must be sent to hosts again.

Services call ``mark`` in the transaction of their change.  A subject has at most one mark: a hundred changes of one
security group cause few jobs.
"""

import uuid
from collections.abc import Collection, Iterable, Sequence

from django.db import connection
from django.db.models import Q, UUIDField

from compute_agent.contract.messages import DOCUMENTS
from compute_agent.contract.network import NETWORK, SECURITY_GROUP
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared, PreparedInsert
from provisioning.common.database.repeated import Repeated
from provisioning.hosts.models import Host
from provisioning.jobs.queue.cast import cast
from provisioning.network.models import Delivery, DeliveryMark, Port

TOPIC = "conductor"
JOB = "network.deliver"
HOST = "host"
"""Kind of the mark of a host that may need other subjects than it has received."""
PORTS = "ports"
"""Kind of the mark of a network on which only ports have changed, so that only their hosts may need other subjects."""
OF_ONE_JOB = 20

Marked = tuple[str, uuid.UUID]


def mark(kind: str, ids: Iterable[uuid.UUID]) -> None:
    """Queue a job, on commit, that sends the current documents of these subjects to the hosts that need them.

    ``kind``: a kind of ``compute_agent.contract.network``, ``HOST`` or ``PORTS``.  Subjects that this transaction
    deletes are marked as well.  Does nothing while no hosts exist: a new host receives everything.
    """
    mark_all((kind, key) for key in ids)


def mark_all(subjects: Iterable[Marked]) -> None:
    """As ``mark``; subjects of several kinds share a job, which visits each host once."""
    ordered = sorted(set(subjects))
    if ordered and _HOSTS():
        deliver(_insert(ordered))


def deliver(marked: Sequence[Marked]) -> None:
    """Queue the jobs that process these marks, ``OF_ONE_JOB`` for each."""
    for first in range(0, len(marked), OF_ONE_JOB):
        cast(TOPIC, JOB, subjects=[[kind, str(key)] for kind, key in marked[first : first + OF_ONE_JOB]])


def ports_changed(ports: Sequence[Port], *, left: bool = False) -> None:
    """Mark the documents to send after guests' ports were bound or changed, or before they are unbound (``left``).

    If the cloud has only one host, no other host has to learn of the change: the host is marked only if a port is
    unbound or if it lacks a network or group of the ports.
    """
    names = {name for port in ports for name in (port.host, port.second_host)} - {""}
    hosts = _HOSTS() if names else []
    if not hosts:
        return
    networks = {port.network_id for port in ports}
    groups = set(_GROUPS_OF(ids=[port.id for port in ports]))
    here = [key for key, name in hosts if name in names]
    if len(hosts) > 1:
        others = [*((PORTS, key) for key in networks), *((SECURITY_GROUP, key) for key in groups)]
        deliver(_insert(sorted([*((HOST, key) for key in here), *others])))
    else:
        deliver(_insert([(HOST, key) for key in here if left or not _has_all(key, networks, groups)]))


_GROUPS_OF = Prepared(
    lambda ids: Port.security_groups.through.objects.filter(Among("port_id", ids)).values_list(
        "securitygroup_id", flat=True
    ),
    ids=Ids(),
)
_HOSTS = Prepared(lambda: Host.objects.filter(contract_version__gte=DOCUMENTS).values_list("id", "name"))


def _has_all(host_id: uuid.UUID, network_ids: Collection[uuid.UUID], group_ids: Collection[uuid.UUID]) -> bool:
    there = _SENT(host=host_id, networks=network_ids, groups=group_ids)
    return len(there) == len(set(network_ids)) + len(set(group_ids))


_SENT = Prepared(
    lambda host, networks, groups: (
        Delivery.objects.filter(
            Q(Among("subject_id", networks), kind=NETWORK) | Q(Among("subject_id", groups), kind=SECURITY_GROUP),
            host_id=host,
        )
        .exclude(digest="")
        .values_list("id", flat=True)
    ),
    host=UUIDField(),
    networks=Ids(),
    groups=Ids(),
)


def _insert(subjects: Sequence[Marked]) -> list[Marked]:
    """Insert the marks, given in their order; return the new ones.

    No job may delete a mark before the caller's transaction ends, because the job might not see the caller's change.
    Therefore the insert waits for a running deletion, and an existing mark is locked with a shared lock.
    """
    new = _insert_missing(subjects)
    if connection.features.has_select_for_update:
        for subject in subjects:
            while subject not in new and not _hold(*subject):
                new |= _insert_missing([subject])
    return [subject for subject in subjects if subject in new]


def _insert_missing(subjects: Sequence[Marked]) -> set[Marked]:
    inserted = _INSERT(DeliveryMark(kind=kind, subject_id=key) for kind, key in subjects)
    return {(kind, key) for kind, key in inserted}


_INSERT = PreparedInsert(DeliveryMark, unique=("kind", "subject_id"), returning=("kind", "subject_id"))


def _hold(kind: str, key: uuid.UUID) -> bool:
    """Lock a mark against its deletion; return whether it exists."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLD, [kind, key])
        return cursor.fetchone() is not None


_HOLD = Repeated(
    f"SELECT 1 FROM {DeliveryMark._meta.db_table} WHERE kind = %s AND subject_id = %s FOR KEY SHARE"  # noqa: S608 - own name
)
