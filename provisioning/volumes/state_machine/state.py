"""The only module that writes ``Volume.status``: by conditional updates, for legal transitions, each with an event.

All transactions lock rows in the same order to avoid deadlocks: servers; volumes, in the order of their ids; snapshots
and backups; the project; the counters of its quota; pools; hosts and commands. A transaction that will change a volume
locks it (``lock``, ``keep_still``) before the project's quota.
"""

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from django.db import connection
from django.db.models import QuerySet, Value
from django.utils import timezone

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import ConflictError
from provisioning.volumes import states
from provisioning.volumes.models import Attachment, Volume, VolumeModification
from provisioning.volumes.records.announcements import announce
from provisioning.volumes.state_machine.deadlines import deadline_of
from provisioning.volumes.states import LEGAL, AttachStatus, VolumeStatus

TASKS = frozenset({VolumeStatus.EXTENDING, VolumeStatus.RETYPING})


def lock(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Volume]:
    """Lock volumes until the caller's transaction ends, and return their current rows by id."""
    return {row.id: row for row in _LOCKED(ids=ids)} if ids else {}


def _locked(ids: Value) -> QuerySet[Volume]:
    rows = Volume.objects.select_for_update(no_key=True, of=("self",)).select_related("pool", "volume_type")
    return rows.filter(Among("id", ids)).order_by("id")


_LOCKED = Prepared(_locked, ids=Ids())


def keep_still(volumes: QuerySet[Volume]) -> None:
    """Lock volumes that the caller's transaction changes later. Must run before it locks rows of a later kind.

    Does nothing on databases without row locks.
    """
    if connection.features.has_select_for_update:
        list(kept_still(volumes))


def kept_still(volumes: QuerySet[Volume]) -> QuerySet[Volume, Any]:
    """Return the query of ``keep_still``."""
    return volumes.select_for_update(no_key=True, of=("self",)).order_by("id").values_list("id")


def move(
    volume: Volume, to: VolumeStatus, *notices: str, changes: Mapping[str, Any] | None = None, reset: bool = False
) -> Volume:
    """Change a volume's status and the columns in ``changes`` in the caller's transaction, and record its event.

    ``notices``: notifications to send (``resize.start``); ``reset``: allow any transition, for an operator. ``volume``
    gets the new values. Raises ConflictError if it has changed since it was read, ValueError for an illegal transition.
    """
    here = VolumeStatus(volume.status)
    if not reset and to != here and to not in LEGAL[here]:
        raise ValueError(f"A volume cannot change from {here} to {to}.")
    columns: dict[str, Any] = {"status": to, "deadline": deadline_of(to), **(changes or {})}
    if to != here:
        columns.setdefault("previous_status", here)
    update(volume, columns, *notices)
    if here in TASKS and to not in TASKS:
        end(volume)
    return volume


def update(volume: Volume, columns: Mapping[str, Any], *notices: str) -> Volume:
    """Update columns of a volume, increment its version, and record its event.

    Raises ConflictError if the volume has changed since it was read.
    """
    values = {**columns, "version": volume.version + 1, "updated_at": timezone.now()}
    if not Volume.objects.filter(id=volume.id, status=volume.status, version=volume.version).update(**values):
        raise ConflictError(f"Volume {volume.id} was changed by another request. Try again.")
    for name, value in values.items():
        setattr(volume, name, value)
    announce(volume, *notices)
    return volume


def reread(volume: Volume) -> bool:
    """Reload a locked volume in place, because callbacks may have changed it. Returns False if it was deleted."""
    try:
        volume.refresh_from_db()
    except Volume.DoesNotExist:
        return False
    return True


def at_rest(volume: Volume) -> VolumeStatus:
    """Return the status that the volume's attachments imply."""
    return at_rest_of([volume.id])[volume.id]


OLD_FORM = {"do_reserve": "os-reserve"}
"""The connector of an attachment that ``os-reserve`` has created and that is not connected yet."""


def at_rest_of(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, VolumeStatus]:
    """Return volume id → the status that its attachments imply, in one query."""
    result: dict[uuid.UUID, set[str]] = {key: set() for key in ids}
    rows = Attachment.objects.filter(volume_id__in=result).values_list("volume_id", "status", "connector")
    for key, status, connector in rows:
        waits = status == AttachStatus.RESERVED and connector == OLD_FORM
        result[key].add(AttachStatus.ATTACHING if waits else status)
    return {key: _by_attachments(statuses) for key, statuses in result.items()}


def _by_attachments(found: Collection[str]) -> VolumeStatus:
    for statuses, status in _BY_ATTACHMENTS:
        if statuses & set(found):
            return status
    return VolumeStatus.AVAILABLE


_BY_ATTACHMENTS: tuple[tuple[frozenset[str], VolumeStatus], ...] = (
    (frozenset({AttachStatus.ATTACHED, AttachStatus.ERROR_DETACHING}), VolumeStatus.IN_USE),
    (frozenset({AttachStatus.ATTACHING}), VolumeStatus.ATTACHING),
    (frozenset({AttachStatus.DETACHING}), VolumeStatus.DETACHING),
    (frozenset({AttachStatus.RESERVED, AttachStatus.ERROR_ATTACHING}), VolumeStatus.RESERVED),
)
RESTING = states.RESTING


def settle(volume: Volume, *notices: str, changes: Mapping[str, Any] | None = None) -> Volume:
    """Set the status that the attachments imply, and the columns in ``changes``.

    While a task is running, or after it has failed, only the columns are changed.
    """
    if volume.status in RESTING:
        return move(volume, at_rest(volume), *notices, changes=changes)
    return update(volume, changes or {}, *notices)


def end_task(volume: Volume, *notices: str, changes: Mapping[str, Any] | None = None) -> Volume:
    """End a task: set the status that the attachments imply, and clear the progress."""
    cleared = {"progress_bytes": 0, "progress_total": 0, "wanted_gb": None, "previous_status": ""}
    return move(volume, at_rest(volume), *notices, changes={**cleared, **(changes or {})})


def end(volume: Volume) -> None:
    """Record the end of a volume's unfinished request, if any.

    The request has failed unless the volume has the requested size and type.
    """
    row = VolumeModification.objects.filter(volume_id=volume.id, ended_at=None).first()
    if row is None:
        return
    row.failed = volume.size_gb < row.target_size_gb or type_name(volume) != row.target_type
    row.ended_at = timezone.now()
    row.save(update_fields=["failed", "ended_at"])


def type_name(volume: Volume) -> str:
    return volume.volume_type.name if volume.volume_type else ""
