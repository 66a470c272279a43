"""Connections of guests to their volumes on a second host, to which they are migrated while they run.

connect → the volume's storage daemon exports it to both hosts (``VolumeUser.second_connected``) → switch, or drop. Each
host has its own export. The daemon ends the other host's export, with its connections, at the switch or the drop.
"""

import contextlib
import uuid
from collections.abc import Collection, Iterable

from django.db import transaction

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.migration import LIVE_MIGRATION
from compute_agent.contract.volume import ConnectVolumeRequest, VolumeClient
from provisioning.common.errors import UnavailableError
from provisioning.hosts.models import Host
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link import connections
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import holds, uses
from provisioning.volumes.services.checks import MIGRATING
from provisioning.volumes.services.connections.daemons import send_clients
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus
from provisioning.volumes.tasks import reason_of

BUSY = "Volume {volume} is {status}. Wait until it is in use by the server only."
CHANGING = "A guest of volume {volume} has not applied a change of the volume yet. Try again later."
MOVING = "The data of volume {volume} is being moved."
OLD_AGENT = "The agent of host {host}, which serves volume {volume}, is too old to serve it to two hosts. Upgrade it."
HELD = "Another host may have volume {volume} open."


def obstacles(attachments: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return attachment id → why its guest cannot have a second host now, for those attachments; deleted attachments
    are omitted.
    """
    rows = Attachment.objects.filter(id__in=attachments).select_related("volume__daemon_host", "volume__pool")
    reasons = {row.id: _obstacle(row) for row in rows} if attachments else {}
    return {key: text for key, text in reasons.items() if text}


def _obstacle(row: Attachment) -> str:
    volume, daemon = row.volume, row.volume.daemon_host
    if row.status != AttachStatus.ATTACHED or volume.status not in state.RESTING or not row.connection:
        shown = row.status if row.status != AttachStatus.ATTACHED else volume.status
        return BUSY.format(volume=volume.id, status=shown.replace("_", " "))
    if row.refreshing:
        return CHANGING.format(volume=volume.id)
    if volume.migration_status == MIGRATING:
        return MOVING.format(volume=volume.id)
    if holds.HELD_BY in row.connector:
        return HELD.format(volume=volume.id)
    if daemon is not None and daemon.contract_version < LIVE_MIGRATION:
        return OLD_AGENT.format(volume=volume.id, host=daemon.name)
    return ""


@transaction.atomic
def connect(attachment_id: uuid.UUID, host: Host) -> None:
    """Export the volume of a running guest also to this host, in the caller's transaction.

    Raises InvalidVolumeError when this is not possible now, and UnavailableError if no host serves the pool.
    """
    locked = _locked([attachment_id])
    if not locked:
        raise InvalidVolumeError("A volume of the server was detached.")
    [(volume, row)] = locked
    if reason := obstacles([row.id]).get(row.id) or holds.reason(volume):
        raise InvalidVolumeError(reason)
    row.second_host, row.second_connection, row.moves = host, {}, row.moves + 1
    row.save(update_fields=["second_host", "second_connection", "moves", "updated_at"])
    send_clients(volume)


@transaction.atomic
def switch(attachment_ids: Collection[uuid.UUID]) -> None:
    """Exchange the guest's host for its second host, where it runs now. The exports to the other host end."""
    for volume, row in _locked(attachment_ids):
        if row.second_host_id is None:
            continue
        row.host_id, row.connection, row.move = row.second_host_id, row.second_connection, row.moves
        _forget(volume, row)
        if row.refreshing:  # a change that the other host has not applied
            uses.user().changed(volume)


@transaction.atomic
def drop(attachment_ids: Collection[uuid.UUID]) -> None:
    """End the exports to the second host. Attachments without one are ignored."""
    for volume, row in _locked(attachment_ids):
        if row.second_host_id is not None:
            _forget(volume, row)


def _forget(volume: Volume, row: Attachment) -> None:
    row.second_host, row.second_connection = None, {}
    row.save(update_fields=["host", "connection", "move", "second_host", "second_connection", "updated_at"])
    with contextlib.suppress(UnavailableError):  # no host is available, so nothing is exported
        send_clients(volume)


def _locked(attachment_ids: Collection[uuid.UUID]) -> list[tuple[Volume, Attachment]]:
    """Return attachments with their volumes, locked, in the order of the volumes."""
    rows = Attachment.objects.filter(id__in=attachment_ids)
    volumes = state.lock(list(rows.values_list("volume_id", flat=True)))
    fresh = {row.volume_id: row for row in rows.all()}
    return [(volume, fresh[key]) for key, volume in volumes.items() if key in fresh]


def answered(volume: Volume, event: AgentEvent, body: ConnectVolumeRequest, host_id: uuid.UUID) -> None:
    """Process the daemon's answer to a list of clients with guests on second hosts; the volume is locked."""
    rows = Attachment.objects.filter(volume_id=volume.id, second_host__isnull=False, second_connection={})
    for row in rows.order_by("id"):
        if _is_in(body.clients, row):
            _answered(volume, row, event, body, host_id)


def _answered(
    volume: Volume, row: Attachment, event: AgentEvent, body: ConnectVolumeRequest, host_id: uuid.UUID
) -> None:
    reason = reason_of(event) if event.kind == "failed" else ""
    if not reason:
        connection = connections.connection_for(
            event, body.volume, client_id=row.id, client_host=row.second_host_id, daemon=host_id, move=row.moves
        )
        row.second_connection = connections.as_column(connection) if connection is not None else {}
        reason = "" if connection is not None else connections.REFUSED
    if reason:
        _forget(volume, row)
    else:
        row.save(update_fields=["second_connection", "updated_at"])
    uses.user().second_connected(row, reason)


def _is_in(clients: Iterable[VolumeClient], row: Attachment) -> bool:
    here = (str(row.id), str(row.second_host_id), row.moves)
    return any((each.attachment_id, each.host_id, each.move) == here for each in clients)
