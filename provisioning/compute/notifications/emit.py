"""Creates notifications: for state transitions, for changes of columns, and on request."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import UUIDField

from compute_agent.contract.build import PortRef
from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.processes import tracing
from provisioning.compute.models import Aggregate, BlockDevice, Instance, InstanceAction
from provisioning.compute.notifications import payloads
from provisioning.compute.notifications.table import ACTIONS, ERROR_OF_TASK, FAILURES, OF_TRANSITION, payload_of
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.compute.states import VmState
from provisioning.events.services import Entry, record_all
from provisioning.network import selectors as network
from provisioning.notifications import services
from provisioning.notifications.messages import Notification, Payload, is_selected, publisher, versioned

NO_ADDRESSES = frozenset({"create.start", "create.error", "delete.end"})
"""Notifications of servers without addresses, which need no query."""
UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Note:
    """Values of a notification that are not in the instance: the caller, the failure and others.

    With ``context`` None, the initiator is read from the action record. ``fault`` is a message for the owner, ``cause``
    a code. ``host`` is the name of the host if the instance's row does not have it. ``ports`` are the interfaces in the
    command to the host, and ``devices`` its volumes. ``more`` are additional fields of the payload.
    """

    context: RequestContext | None = None
    fault: str = ""
    cause: str = ""
    host: str = ""
    zone: str = ""
    image_id: str = ""
    ports: Sequence[PortRef] | None = None
    devices: Sequence[BlockDevice] | None = None
    service: str = "nova-compute"
    more: Mapping[str, Any] = field(default_factory=dict)


NOTHING = Note()
State = tuple[str, str | None]


def moved(instance: Instance, was: State, transitions: Sequence[str], note: Note | None = None) -> list[Entry]:
    """Return the notifications of transitions from the state ``was``, as events for the same transaction.

    Runs no queries for a launch; otherwise at most one for the addresses, one for the volumes and one for the
    initiator.
    """
    names = [name for transition in transitions for name in _names(instance, was, transition)]
    return _entries(instance, [UPDATE, *names], note or NOTHING, was)


def changed(instance: Instance, note: Note | None = None, names: Sequence[str] = ()) -> list[Entry]:
    """Return the notifications of a change of other columns: ``instance.update`` and ``names``."""
    return _entries(instance, [UPDATE, *names], note or NOTHING, (instance.vm_state, instance.task_state))


def notify(instance: Instance, name: str, note: Note | None = None) -> None:
    """Send ``instance.<name>`` in the caller's transaction, for actions without a state transition."""
    notifications = _entries(instance, [name], note or NOTHING, (instance.vm_state, instance.task_state))
    if notifications:
        record_all(notifications)


def usage(instances: Iterable[Instance], beginning: datetime, ending: datetime) -> None:
    """Send ``instance.exists`` for servers and a period, with two queries; the servers' hosts must be loaded."""
    event, rows = "instance.exists", list(instances)
    if not rows or not is_selected(event):
        return
    addresses = network.addresses_of([row.id for row in rows])
    period = payloads.audit_period(beginning, ending)
    collected = []
    devices = volumes_shown([row.id for row in rows])
    for row in rows:
        volumes = payloads.block_devices(devices.get(row.id, []))
        data = _data(row, NOTHING, payloads.addresses(addresses.get(row.id, [])), volumes)
        data |= {"request_id": None, "action_initiator_user": None, "action_initiator_project": None}
        data["audit_period"] = period
        collected.append(_of(row, event, data, NOTHING))
    services.notify(collected)


def of_aggregate(row: Aggregate, verb: str) -> None:
    """Send the start and end notifications of a change of an aggregate."""
    events = [event for phase in ("start", "end") if is_selected(event := f"aggregate.{verb}.{phase}")]
    if events:
        hosts = list(row.hosts.order_by("name").values_list("name", flat=True)) if row.pk else []
        payload = payloads.aggregate(row, hosts)
        subject = f"aggregate:{row.uuid}"
        services.notify([Notification(event, publisher("nova-api"), payload, subject) for event in events])


# ----- internal ------------------------------------------------------------------------------------------------------


def _names(instance: Instance, was: State, move: str) -> tuple[str, ...]:
    """Return the notifications of a transition, without ``instance.``."""
    if move in FAILURES:
        name = ERROR_OF_TASK.get(was[1] or "")
        return (name,) if name else ()
    if move == "allocate_network" and (instance.vm_state != VmState.BUILDING or instance.attempt != 1):
        return ()  # a retry of a launch, or an unshelving
    return OF_TRANSITION.get(move, ())


def _entries(instance: Instance, names: Sequence[str], note: Note, was: State) -> list[Entry]:
    requested = [name for name in names if is_selected(f"instance.{name}")]
    if not requested:
        return []
    addresses = _addresses(instance, requested, note)
    volumes = payloads.block_devices(_devices(instance, note))
    common = {**_data(instance, note, addresses, volumes), **_initiator(instance, requested[-1], note)}
    result = []
    for name in requested:
        data = {**common, **_more(instance, name, note, was)}
        result.append(_of(instance, f"instance.{name}", data, note))
    return services.entries(result)


def _of(instance: Instance, event: str, data: dict[str, Any], note: Note) -> Notification:
    name, version = payload_of(event)
    payload: Payload = versioned(name, version, data)
    host = data["host"] or ""
    by = publisher(note.service if host or note.service != "nova-compute" else "nova-conductor", _at(note, host))
    priority: Any = "ERROR" if event.endswith(".error") else "INFO"
    return Notification(event, by, payload, str(instance.id), priority)


def _at(note: Note, host: str) -> str:
    return host if note.service == "nova-compute" else ""


def _data(instance: Instance, note: Note, addresses: list[Payload], volumes: list[Payload]) -> dict[str, Any]:
    name, node, zone = note.host or None, note.host or None, note.zone
    if not note.host and instance.host is not None:
        name, zone = instance.host.name, instance.host.availability_zone
        node = instance.host.hypervisor_hostname or name
    data = payloads.instance_data(instance, (name, node), zone)
    return {**data, "ip_addresses": addresses, "block_devices": volumes}


def _addresses(instance: Instance, names: Sequence[str], note: Note) -> list[Payload]:
    if note.ports is not None:
        return payloads.addresses_of_interfaces(note.ports)
    others = set(names) - {UPDATE}
    if instance.vm_state == VmState.BUILDING or (others and others <= NO_ADDRESSES):
        return []
    return payloads.addresses(network.addresses_of([instance.id]).get(instance.id, []))


def _devices(instance: Instance, note: Note) -> Sequence[BlockDevice]:
    if note.devices is not None:
        return note.devices
    return [] if instance.vm_state == VmState.BUILDING else volumes_shown([instance.id]).get(instance.id, [])


def _initiator(instance: Instance, name: str, note: Note) -> dict[str, Any]:
    """Return the initiator: the caller, or the initiator of the action in progress."""
    if note.context is not None:
        context = note.context
        return _request_fields(context.request_id, context.user_id, context.project_id)
    action = name.partition(".")[0]
    if action in {"create", UPDATE}:
        own = (instance.request_id, instance.user_id, instance.project_id) if action == "create" else (None, None, None)
        return _request_fields(*own)
    row = _newest_of(tuple(ACTIONS.get(action, (action,)))).first(instance_id=instance.id)
    return _request_fields(*(row or (None, None, None)))


@cache
def _newest_of(actions: tuple[str, ...]) -> Prepared[tuple[str, UUID | None, UUID | None]]:
    """Return the query for the request, user and project of a server's newest action of these kinds."""
    return Prepared(
        lambda instance_id: (
            InstanceAction.objects.filter(instance_id=instance_id, action__in=actions)
            .order_by("-id")
            .values_list("request_id", "user_id", "project_id")[:1]
        ),
        instance_id=UUIDField(),
    )


def _request_fields(request_id: str | None, user_id: Any, project_id: Any) -> dict[str, Any]:
    current = tracing.request_id.get()
    return {
        "request_id": request_id or (current if current.startswith("req-") else None),
        "action_initiator_user": user_id.hex if user_id else None,
        "action_initiator_project": project_id.hex if project_id else None,
    }


def _more(instance: Instance, name: str, note: Note, was: State) -> dict[str, Any]:
    """Return the additional fields of a notification's payload."""
    action, _, phase = name.partition(".")
    more = {**note.more, **(_MORE[action](instance, note) if action in _MORE else {})}
    if action == UPDATE:
        return {**more, "state_update": payloads.state_update(was, instance)}
    cause = payloads.fault(note.fault, note.cause, action) if phase == "error" else None
    return {**more, "fault": cause}


def _of_create(instance: Instance, note: Note) -> Mapping[str, Any]:
    keys = []
    if instance.key_name:
        pair = {
            "name": instance.key_name,
            "user_id": instance.user_id.hex,
            "public_key": instance.public_key,
            "fingerprint": None,
            "type": "ssh",
        }
        keys = [versioned("KeypairPayload", "1.0", pair)]
    return {
        "keypairs": keys,
        "tags": list(instance.tags),
        "trusted_image_certificates": instance.trusted_certificates,
        "instance_name": f"instance-{instance.id.hex[:8]}",
    }


def _of_update(instance: Instance, note: Note) -> Mapping[str, Any]:
    start_of_month = instance.updated_at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return {
        "audit_period": payloads.audit_period(start_of_month, instance.updated_at),
        "old_display_name": None,
        "tags": list(instance.tags),
    }


_MORE: dict[str, Any] = {
    "create": _of_create,
    UPDATE: _of_update,
    "snapshot": lambda instance, note: {"snapshot_image_id": note.image_id or None},
    "rescue": lambda instance, note: {
        "rescue_image_ref": str(instance.rescue_image_id) if instance.rescue_image_id else None
    },
    "rebuild": lambda instance, note: {"trusted_image_certificates": instance.trusted_certificates},
    "resize_prep": lambda instance, note: {
        "new_flavor": payloads.flavor(instance.old_flavor) if instance.old_flavor else None
    },
}
