"""Events about servers from other services (Compute API reference, "Create external events")."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.actions.power import Start, Stop
from provisioning.compute.actions.refresh_volume import send_refresh
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.events.services import Entry, record_all

log = logging.getLogger(__name__)

POWER_UPDATE = "power-update"
EXTENDED = "volume-extended"
NEED_A_TAG = frozenset({EXTENDED, POWER_UPDATE, "accelerator-request-bound"})
_TOPIC = "external_events"


class Delivery(Enum):
    """Result of an event."""

    DELIVERED = "delivered"
    NO_SUCH_SERVER = "no such server"
    NO_TAG = "no tag"
    ON_NO_HOST = "on no host"


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """An external event. ``tag`` is the id of a port or volume, or for ``power-update`` POWER_ON or POWER_OFF."""

    server_id: str
    name: str
    status: str = "completed"
    tag: str | None = None


def deliver(context: RequestContext, events: Sequence[ExternalEvent]) -> list[Delivery]:
    """Record events and return the result of each, in their order.

    ``power-update`` starts a stopped server or stops an active one; in other states, and during tasks, it is ignored.
    """
    ids = {parsed for event in events if (parsed := read_id(event.server_id)) is not None}
    servers = Instance.objects.filter(id__in=ids).exclude(vm_state=VmState.DELETED).in_bulk()
    answers, entries = [], list[Entry]()
    for event in events:
        server = servers.get(read_id(event.server_id) or NOBODY)
        answer = _judge(event, server)
        answers.append(answer)
        if server is not None and answer is Delivery.DELIVERED:
            entries.append(_entry(context, event, server))
    with transaction.atomic():
        record_all(entries)
    for event, answer in zip(events, answers, strict=True):
        if event.name == EXTENDED and answer is Delivery.DELIVERED:
            _extended(event)
        if event.name == POWER_UPDATE and answer is Delivery.DELIVERED:
            _power(context, event)
    return answers


def _judge(event: ExternalEvent, server: Instance | None) -> Delivery:
    if server is None:
        return Delivery.NO_SUCH_SERVER
    if event.name in NEED_A_TAG and event.tag is None:
        return Delivery.NO_TAG
    return Delivery.ON_NO_HOST if server.host_id is None else Delivery.DELIVERED


def _entry(context: RequestContext, event: ExternalEvent, server: Instance) -> Entry:
    entry = {"name": event.name, "status": event.status, "tag": event.tag, "request_id": context.request_id}
    return _TOPIC, "compute.instance.external_event", {"instance_id": str(server.id), **entry}


def _power(context: RequestContext, event: ExternalEvent) -> None:
    """Start or stop a server as the event requires. Errors are only logged, because no caller waits for the result."""
    server = Instance.objects.filter(id=read_id(event.server_id) or NOBODY).first()
    if server is None or server.task_state is not None:
        return
    own = context.in_project(server.project_id)
    try:
        if event.tag == "POWER_ON" and server.vm_state == VmState.STOPPED:
            Start.begin(own, server.id)
        elif event.tag == "POWER_OFF" and server.vm_state == VmState.ACTIVE:
            Stop.begin(own, server.id)
    except NovellaError as error:
        log.warning("Instance %s: %s %s failed: %s", server.id, event.name, event.tag, error.message)


def _extended(event: ExternalEvent) -> None:
    """Update the disk on the guest's host after its volume was extended."""
    with transaction.atomic():
        server_id = read_id(event.server_id) or NOBODY
        state.lock([server_id])
        device = BlockDevice.objects.filter(
            instance_id=server_id, volume_id=read_id(event.tag or "") or NOBODY, plugged=True, leaving=False
        ).first()
        instance = Instance.objects.select_related("host").filter(id=server_id).first()
        if device is not None and instance is not None:
            send_refresh(instance, device, extended=True)
