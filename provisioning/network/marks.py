"""Says that hosts may have to be told anew of a network, router, floating IP or security group.

Services call ``mark`` in the transaction of their change.  A subject that is marked already is not marked twice: a
hundred changes of one security group are few jobs.
"""

import uuid
from collections.abc import Collection, Iterable, Sequence

from django.db import connection
from django.db.models import Q, UUIDField
from django.utils import timezone

from compute_agent.contract.messages import DOCUMENTS
from compute_agent.contract.network import NETWORK, SECURITY_GROUP
from provisioning.common.lookups import Among, Ids
from provisioning.common.prepared import Prepared
from provisioning.hosts.models import Host
from provisioning.jobs.cast import cast
from provisioning.network.models import Delivery, DeliveryMark, Port

TOPIC = "conductor"
JOB = "network.deliver"
HOST = "host"
"""Besides the kinds of subjects: a host that may need others than it was told of."""
PORTS = "ports"
"""Likewise: a network on which only ports have changed, so that no other host than theirs needs more, or less."""
OF_ONE_JOB = 20

Marked = tuple[str, uuid.UUID]


def mark(kind: str, ids: Iterable[uuid.UUID]) -> None:
    """Let a job bring the hosts that need these subjects to what the records say when the transaction commits.

    ``kind``: one of ``compute_agent.contract.network``, ``HOST`` or ``PORTS``; a subject that is deleted in this
    transaction is marked, too.  Nothing is done before there is a host: it is told everything when it comes.
    """
    mark_all((kind, key) for key in ids)


def mark_all(subjects: Iterable[Marked]) -> None:
    """As ``mark``; subjects of several kinds are one job's, which looks at each host once."""
    wanted = sorted(set(subjects))
    if wanted and _HOSTS():
        deliver([subject for subject in wanted if _insert(*subject)])


def deliver(marked: Sequence[Marked]) -> None:
    """Cast the job that takes marks."""
    for first in range(0, len(marked), OF_ONE_JOB):
        cast(TOPIC, JOB, subjects=[[kind, str(key)] for kind, key in marked[first : first + OF_ONE_JOB]])


def ports_changed(ports: Sequence[Port], *, left: bool = False) -> None:
    """Guests' ports were bound to their hosts, or changed there, or are about to leave them (``left``).

    Where there is one host only, which knows its own guests, nothing is to be told once it knows networks and groups.
    """
    hosts = _HOSTS() if any(port.host for port in ports) else []
    if not hosts:
        return
    networks = {port.network_id for port in ports}
    groups = set(_GROUPS_OF(ids=[port.id for port in ports]))
    names = {port.host for port in ports}
    here = [key for key, name in hosts if name in names]
    if len(hosts) > 1:
        others = [*((PORTS, key) for key in networks), *((SECURITY_GROUP, key) for key in groups)]
        mark_all([*((HOST, key) for key in here), *others])
    else:
        mark(HOST, [key for key in here if left or not _told(key, networks, groups)])


_GROUPS_OF = Prepared(
    lambda ids: Port.security_groups.through.objects.filter(Among("port_id", ids)).values_list(
        "securitygroup_id", flat=True
    ),
    ids=Ids(),
)
_HOSTS = Prepared(lambda: Host.objects.filter(contract_version__gte=DOCUMENTS).values_list("id", "name"))


def _told(host_id: uuid.UUID, network_ids: Collection[uuid.UUID], group_ids: Collection[uuid.UUID]) -> bool:
    there = _TOLD(host=host_id, networks=network_ids, groups=group_ids)
    return len(there) == len(set(network_ids)) + len(set(group_ids))


_TOLD = Prepared(
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


def _insert(kind: str, key: uuid.UUID) -> bool:
    """Insert the mark; whether it was not there.

    No job takes a mark away before the caller's transaction has ended, because it may not see our change: one that
    takes it away now is waited for, and one that is there already is locked, together with others who mark it.
    """
    meta = DeliveryMark._meta
    table = connection.ops.quote_name(meta.db_table)
    said: dict[str, object] = {"kind": kind, "subject_id": key, "marked_at": timezone.now()}
    fields = [column for column in meta.concrete_fields if column.name in said]
    named = [connection.ops.quote_name(column.name) for column in fields]
    values = [column.get_db_prep_save(said[column.name], connection) for column in fields]
    insert = f"INSERT INTO {table} ({', '.join(named)}) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"  # noqa: S608 - names of our own
    hold = f"SELECT 1 FROM {table} WHERE kind = %s AND subject_id = %s FOR KEY SHARE"  # noqa: S608 - the same
    with connection.cursor() as cursor:
        while True:
            cursor.execute(insert, values)
            if cursor.rowcount:
                return True
            if not connection.features.has_select_for_update:
                return False
            cursor.execute(hold, [kind, key])
            if cursor.fetchone():
                return False
