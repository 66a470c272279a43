"""Announces changes of networking: updates the pages of projects that see a record, and sends notifications.

Services call ``announce`` in the transaction of their change.  Ports of guests and the cloud's own ports need no
announcement: the events of the instance, router or floating IP cover them.
"""

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Literal

from django.db.models import CharField, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.events import services as events
from provisioning.events.selectors import EVERYBODY
from provisioning.network.models import (
    AddressGroup,
    AddressScope,
    FloatingIP,
    Network,
    Port,
    RbacPolicy,
    Router,
    SecurityGroup,
    Subnet,
    SubnetPool,
)
from provisioning.network.records.owners import COMPUTE
from provisioning.notifications import services as notifications
from provisioning.notifications.messages import Notification, Payload, is_selected, publisher, versioned, when

Row = (
    Network
    | Subnet
    | Port
    | Router
    | FloatingIP
    | SecurityGroup
    | SubnetPool
    | AddressScope
    | AddressGroup
    | RbacPolicy
)
Verb = Literal["create", "update", "delete"]

KIND = "network"
"""The kind of these events; their payload has the record's type (``record``) and the affected ``instances``."""
NAMES: dict[type[Any], str] = {
    Network: "network",
    Subnet: "subnet",
    Port: "port",
    Router: "router",
    FloatingIP: "floatingip",
    SecurityGroup: "security_group",
    SubnetPool: "subnetpool",
    AddressScope: "address_scope",
    AddressGroup: "address_group",
    RbacPolicy: "rbac_policy",
}
"""Neutron's resource names in event types."""
TYPES = tuple(f"{name}.{verb}.end" for name in NAMES.values() for verb in ("create", "update", "delete"))
SHOWN_TO_OTHERS = ("network", "security_group", "address_group")
"""Kinds of records, by Neutron's names, that the pages of other projects show."""
_HIDDEN = frozenset(
    {"project_id", "bridge", "host", "second_host", "binding_profile", "error", "with_instance", "dhcp_address"}
)
"""Internal columns, left out of notifications."""


def announce(
    row: Row, verb: Verb = "update", *, ports: Iterable[Port | None] = (), before: Collection[str] = ()
) -> None:
    """Record the event of a record that was created or updated, or is about to be deleted, and send its notification.

    ``ports``: ports whose guests are affected; ``before``: the result of ``topics_of`` before the change.
    """
    of_guests = (*ports, row) if isinstance(row, Port) else ports
    guests = {str(port.device_id) for port in of_guests if port and port.device_owner.startswith(COMPUTE)}
    payload = {"id": str(row.pk), "record": str(row._meta.model_name), "instances": sorted(guests - {"None"})}
    entries = [(topic, KIND, payload) for topic in sorted({*topics_of(row), *before})]
    event = f"{NAMES[type(row)]}.{verb}.end"
    if is_selected(event):
        notification = Notification(event, publisher("neutron-server"), _payload(row), str(row.pk))
        entries += notifications.entries([notification])
    events.record_all(entries)


def topics_of(row: Row) -> set[str]:
    """Return the event topics of the projects that see a record: its owner, and the projects that it is shared with.

    If the record is shared with all projects, ``EVERYBODY`` is one of the topics.
    """
    topics, targets = {f"project:{row.project_id}"}, []
    shown = row.network if isinstance(row, Subnet) else row
    kind = NAMES[type(shown)]
    if isinstance(row, RbacPolicy):
        targets = [row.target_project]
    elif kind in SHOWN_TO_OTHERS:
        targets = _TARGETS(kind=kind, key=shown.pk)
    for target in targets:
        topics.add(EVERYBODY if target == RbacPolicy.EVERYBODY else f"project:{read_id(target) or NOBODY}")
    return topics


_TARGETS = Prepared(
    lambda kind, key: RbacPolicy.objects.filter(object_type=kind, object_id=key).values_list(
        "target_project", flat=True
    ),
    kind=CharField(),
    key=UUIDField(),
)


def _payload(row: Row) -> Payload:
    """Return a record's columns by their names, which are mostly the names of the API's attributes."""
    data: dict[str, Any] = {"tenant_id": row.project_id.hex, "resource_type": NAMES[type(row)]}
    for column in row._meta.concrete_fields:
        if column.name not in _HIDDEN:
            data[column.attname] = _plain(getattr(row, column.attname))
    return versioned("NetworkResourcePayload", "1.0", data)


def _plain(value: object) -> object:
    if isinstance(value, uuid.UUID):
        return str(value)
    return when(value) if isinstance(value, datetime) else value
