"""The only writer of ``Volume.status``: conditional updates against the table of legal moves, each with its event.

Rows are locked in one order everywhere, so that no two transactions wait for each other: servers; volumes, in the order
of their ids; snapshots and backups; the project; the counters of its quota; pools; hosts and commands.  Whoever will
need a volume locks it (``lock``, ``keep_still``) before anything of its project's quota.
"""

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from django.db import connection
from django.db.models import QuerySet, Value
from django.utils import timezone

from provisioning.common.errors import ConflictError
from provisioning.common.lookups import Among, Ids
from provisioning.common.prepared import Prepared
from provisioning.volumes import modifications
from provisioning.volumes.announcements import announce
from provisioning.volumes.deadlines import deadline_of
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.states import LEGAL, AttachStatus, VolumeStatus


def lock(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Volume]:
    """Keep these volumes from everybody else until the caller's transaction ends; return them as they are now."""
    return {row.id: row for row in _LOCKED(ids=ids)} if ids else {}


def _locked(ids: Value) -> QuerySet[Volume]:
    rows = Volume.objects.select_for_update(no_key=True, of=("self",)).select_related("pool", "volume_type")
    return rows.filter(Among("id", ids)).order_by("id")


_LOCKED = Prepared(_locked, ids=Ids())


def keep_still(volumes: QuerySet[Volume]) -> None:
    """Lock volumes for what the caller's transaction does later, behind locks that come after them in the order; where
    the database locks rows.
    """
    if connection.features.has_select_for_update:
        list(volumes.select_for_update(no_key=True, of=("self",)).order_by("id").values_list("id"))


def move(
    volume: Volume, to: VolumeStatus, *tell: str, changes: Mapping[str, Any] | None = None, reset: bool = False
) -> Volume:
    """Move a volume in the caller's transaction, with further columns in ``changes``, and write its event.

    ``tell``: notifications (``resize.start``); ``reset``: an operator's word, which passes over the table.  ``volume``
    has the new values then.  Raises ConflictError when it has changed since it was read, ValueError for a move that is
    not legal.
    """
    here = VolumeStatus(volume.status)
    if not reset and to != here and to not in LEGAL[here]:
        raise ValueError(f"A volume does not move from {here} to {to}.")
    columns: dict[str, Any] = {"status": to, "deadline": deadline_of(to), **(changes or {})}
    if to != here:
        columns.setdefault("previous_status", here)
    update(volume, columns, *tell)
    if here in modifications.TASKS and to not in modifications.TASKS:
        modifications.end(volume)
    return volume


def update(volume: Volume, columns: Mapping[str, Any], *tell: str) -> Volume:
    """Write columns of a volume that is as it was read, raise its version, write its event; else ConflictError."""
    values = {**columns, "version": volume.version + 1, "updated_at": timezone.now()}
    if not Volume.objects.filter(id=volume.id, status=volume.status, version=volume.version).update(**values):
        raise ConflictError(f"Volume {volume.id} has changed meanwhile. Try again.")
    for name, value in values.items():
        setattr(volume, name, value)
    announce(volume, *tell)
    return volume


def reread(volume: Volume) -> bool:
    """Read a locked volume anew, in place: callbacks may have changed it.  False when it is gone."""
    try:
        volume.refresh_from_db()
    except Volume.DoesNotExist:
        return False
    return True


def at_rest(volume: Volume) -> VolumeStatus:
    """Return the status that follows from the volume's attachments alone."""
    return at_rest_of([volume.id])[volume.id]


OLD_FORM = {"do_reserve": "os-reserve"}
"""The connector of what ``os-reserve`` has reserved: nobody has connected it yet."""


def at_rest_of(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, VolumeStatus]:
    """Return the same of several volumes, by their ids; one query."""
    found: dict[uuid.UUID, set[str]] = {key: set() for key in ids}
    rows = Attachment.objects.filter(volume_id__in=found).values_list("volume_id", "status", "connector")
    for key, status, connector in rows:
        waits = status == AttachStatus.RESERVED and connector == OLD_FORM
        found[key].add(AttachStatus.ATTACHING if waits else status)
    return {key: _by_attachments(statuses) for key, statuses in found.items()}


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
RESTING = frozenset(
    {
        VolumeStatus.AVAILABLE,
        VolumeStatus.RESERVED,
        VolumeStatus.ATTACHING,
        VolumeStatus.DETACHING,
        VolumeStatus.IN_USE,
    }
)
"""Statuses that follow from attachments; in the others a task of the volume goes on, or it has failed."""


def settle(volume: Volume, *tell: str, changes: Mapping[str, Any] | None = None) -> Volume:
    """Bring the status to what the attachments say, when no task goes on; else as ``move``."""
    if volume.status in RESTING:
        return move(volume, at_rest(volume), *tell, changes=changes)
    return update(volume, changes or {}, *tell)


def end_task(volume: Volume, *tell: str, changes: Mapping[str, Any] | None = None) -> Volume:
    """A task is over: the status follows from the attachments again."""
    cleared = {"progress_bytes": 0, "progress_total": 0, "wanted_gb": None, "previous_status": ""}
    return move(volume, at_rest(volume), *tell, changes={**cleared, **(changes or {})})
