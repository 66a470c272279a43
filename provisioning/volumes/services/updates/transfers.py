"""Transfers volumes between projects.

The recipient accepts a volume and its snapshots with a key. The volume and the snapshots then count in the quotas of
the recipient's project.
"""

import hashlib
import hmac
import secrets
import uuid

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.quotas.services.ledger import hold, release
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Snapshot, Transfer, Volume
from provisioning.volumes.records import quota
from provisioning.volumes.selectors.copies import transfer_for
from provisioning.volumes.services.checks import check_free, check_texts, locked_volume
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import SnapshotStatus, VolumeStatus

KEY_BYTES = 16


@when_broken_off
@transaction.atomic
def create_transfer(
    context: RequestContext,
    volume_id: str | uuid.UUID,
    name: str = "",
    *,
    no_snapshots: bool = False,
    encrypted_too: bool = True,
) -> tuple[Transfer, str]:
    """Offer an available volume for transfer; return the transfer and its key, which cannot be read again.

    Raises VolumeNotFoundError, and InvalidVolumeError for a volume that is in use or in a group. An encrypted volume is
    also refused, unless ``encrypted_too``.
    """
    check_texts(name)
    volume = locked_volume(context, volume_id)
    if volume.status != VolumeStatus.AVAILABLE:
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it must be available to be transferred.")
    check_free(volume)
    if volume.group_id is not None:
        raise InvalidVolumeError(f"Volume {volume.id} belongs to a group.")
    if volume.encryption_key and not encrypted_too:
        raise InvalidVolumeError("transferring encrypted volume is not supported")
    if no_snapshots and Snapshot.objects.filter(volume_id=volume.id).exists():
        msg = f"Volume {volume.id} has snapshots, which must be transferred with it or deleted first."
        raise InvalidVolumeError(msg)
    busy = Snapshot.objects.filter(volume_id=volume.id).exclude(status=SnapshotStatus.AVAILABLE)
    if busy.exists():
        raise InvalidVolumeError(f"Volume {volume.id} has snapshots that are not available.")
    key, salt = secrets.token_hex(KEY_BYTES), secrets.token_hex(KEY_BYTES)
    made = Transfer.objects.create(
        id=uuid.uuid4(),
        volume=volume,
        name=name,
        source_project_id=volume.project_id,
        salt=salt,
        key_digest=_digest(salt, key),
        no_snapshots=no_snapshots,
    )
    state.move(volume, VolumeStatus.AWAITING_TRANSFER)
    return made, key


@when_broken_off
@transaction.atomic
def delete_transfer(context: RequestContext, transfer_id: str) -> None:
    """Delete a transfer; the volume becomes available again."""
    transfer = transfer_for(context, transfer_id)
    volume = state.lock([transfer.volume_id])[transfer.volume_id]
    Transfer.objects.filter(pk=transfer.pk).delete()
    if volume.status == VolumeStatus.AWAITING_TRANSFER:
        state.move(volume, VolumeStatus.AVAILABLE)


@when_broken_off
@transaction.atomic
def accept_transfer(context: RequestContext, transfer_id: str, key: str) -> Transfer:
    """Accept a volume with the key. The volume and its snapshots then count in the quotas of the caller's project.

    Raises NotFoundError, InvalidInputError for a wrong key, OverQuotaError.
    """
    project = context.project_id
    transfer = Transfer.objects.filter(id=read_id(transfer_id) or NOBODY).select_related("volume").first()
    if transfer is None or project is None:
        raise NotFoundError(f"Transfer {transfer_id[:64]} could not be found.")
    if not hmac.compare_digest(_digest(transfer.salt, key), transfer.key_digest):
        raise InvalidInputError(f"Attempt to transfer {transfer.id} with invalid auth key.", field="auth_key")
    volume = state.lock([transfer.volume_id])[transfer.volume_id]
    if not Transfer.objects.filter(pk=transfer.pk).exists() or volume.status != VolumeStatus.AWAITING_TRANSFER:
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it is no longer offered for a transfer.")
    snapshots = list(Snapshot.objects.filter(volume_id=volume.id))
    if transfer.no_snapshots and snapshots:
        raise InvalidVolumeError(f"Volume {volume.id} has snapshots, which are not transferred.")
    _move_holdings(volume, snapshots, project)
    Snapshot.objects.filter(pk__in=[each.pk for each in snapshots]).update(project_id=project, user_id=context.user_id)
    Transfer.objects.filter(pk=transfer.pk).delete()
    changes = {"project_id": project, "user_id": context.user_id, "group_id": None}
    state.move(volume, VolumeStatus.AVAILABLE, changes=changes)
    transfer.accepted, transfer.destination_project_id = True, project
    return transfer


def _move_holdings(volume: Volume, snapshots: list[Snapshot], project: uuid.UUID) -> None:
    """Move the quota usage of the volume and its snapshots to the new project.  Raises OverQuotaError."""
    if volume.project_id == project:
        return
    release(volume.id)
    hold(project, volume.id, quota.of_volume(volume.volume_type, volume.size_gb))
    for each in snapshots:
        release(each.id)
        if each.consumes_quota:
            hold(project, each.id, quota.of_snapshot(volume, each.size_gb))


def _digest(salt: str, key: str) -> str:
    return hashlib.sha256(f"{salt}{key}".encode()).hexdigest()
