"""The lists of volumes, snapshots and backups."""

import uuid
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Lower
from django.utils.html import format_html

from portal.common import statuses
from portal.dashboard.lists import cells, columns, users
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, same_id, searched
from portal.dashboard.volumes import rows
from portal.dashboard.volumes.rows import type_name
from portal.dashboard.words.wording import size_in_bytes
from provisioning.common.context import RequestContext
from provisioning.volumes import selectors
from provisioning.volumes.models import Backup, Snapshot, Volume
from provisioning.volumes.selectors import copies
from provisioning.volumes.states import BackupStatus, SnapshotStatus, VolumeStatus

Row = dict[str, Any]
KINDS = frozenset({"instance", "volume"})
"""Kinds of events that change these lists."""
MOST = 200
"""Maximum number of choices of a filter."""


def _yes(column: str) -> Filter:
    return Filter(
        column,
        column.capitalize(),
        fixed(("yes", "Yes"), ("no", "No")),
        lambda _, value: Q(**{column: value == "yes"}),
    )


def _size(of: str) -> Column:
    return Column(
        "size",
        "Size",
        lambda row: cells.gib(row[of].size_gb),
        sort="size_gb",
        css="num text-nowrap",
        largest_first=True,
    )


def _status(of: str, draw_error: str = "") -> Column:
    """Return the column of the status with the progress of a copy, and the reason of a failure."""
    return Column(
        "status",
        "Status",
        lambda row: (
            cells.status(row["status"])
            + cells.progress(row.get("progress"), row[of])
            + cells.sub(cells.bdi(getattr(row[of], draw_error) if draw_error else ""))
        ),
        sort="status",
        plain=lambda row: row["status"].word,
        titled=False,
    )


def _buttons(of: str, *possible: tuple[str, str, str, str, str]) -> Any:
    """Return the function that draws the buttons that a row allows: its key, icon, title, URL name and label."""

    def draw(row: Row) -> object:
        record = row[of]
        return cells.join(
            "",
            (
                cells.button(sign, title, record, to, record.pk, label=label)
                for may, sign, title, to, label in possible
                if row[may]
            ),
        )

    return draw


def _volume_rows(context: RequestContext, volumes: Sequence[Volume]) -> list[Row]:
    names = rows.names_of(context, volumes)
    owners = users.Users(volume.user_id for volume in volumes)
    return [{**rows.row_of(context, volume, names), "owners": owners} for volume in volumes]


def _owner(row: Row) -> tuple[uuid.UUID | None, str]:
    user_id = row["volume"].user_id
    return user_id, row["owners"].name(user_id)


def _volume_name(row: Row) -> object:
    volume = row["volume"]
    beside = ("bootable" if volume.bootable else "", "encrypted" if volume.encryption_key else "")
    return cells.record(volume, "dashboard:volume", beside=beside, below=volume.description)


def _users(row: Row) -> object:
    return cells.join("<br>", (_user(use) for use in row["users"]))


def _user(use: Row) -> object:
    known = use["known"]
    name = (
        cells.link(use["name"], "dashboard:instance", use["attachment"].instance_id)
        if known
        else cells.bdi(use["name"])
    )
    device = format_html(' <span class="mono small muted">{}</span>', use["device"]) if use["device"] else ""
    return format_html("{}{}{}", name, device, format_html(" {}", cells.tag("read only")) if use["read_only"] else "")


def _types(context: RequestContext) -> list[tuple[str, str]]:
    return [(str(each.id), type_name(each)) for each in selectors.visible_types(context)[:MOST]]


def _volume_detail(_: RequestContext, volumes: QuerySet[Volume]) -> QuerySet[Volume]:
    return volumes.prefetch_related("attachments")


_BY_NAME = searched("name", "description")
VOLUMES = RecordList[Volume](
    key="volumes",
    model=Volume,
    one="volume",
    noun="volumes",
    rule="volume:get_all",
    row_id="volume",
    records=lambda context, _: selectors.visible_volumes(context),
    detail=_volume_detail,
    rows=_volume_rows,
    default="-age",
    columns=(
        columns.name(_volume_name, itemgetter("volume")),
        _status("volume"),
        _size("volume"),
        Column("type", "Type", lambda row: cells.bdi(row["type"]), sort="volume_type__name", css="muted"),
        Column("users", "Attached to", _users),
        users.column(_owner, "dashboard:volumes", selectors.volumes_have_several_users),
        Column("zone", "Zone", lambda row: row["volume"].availability_zone, sort="availability_zone", optional=True),
        columns.age("volume", optional=True),
        columns.ident("volume"),
    ),
    bulk=bulk_actions("volumes"),
    actions=_buttons(
        "volume",
        ("can_attach", "link-45deg", "Attach", "dashboard:volume_attach", ""),
        ("can_snapshot", "camera", "Take a snapshot", "dashboard:snapshot_create", "Take a snapshot of {}"),
        ("can_extend", "arrows-angle-expand", "Extend", "dashboard:volume_extend", ""),
        ("can_delete", "trash", "Delete", "dashboard:volume_delete", ""),
    ),
    search=lambda context, text: _BY_NAME(context, text) | users.of_users_named(context, text),
    find="Find by name, user or ID",
    filters=(
        columns.status_filter(
            statuses.VOLUME_STATUS, (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE, VolumeStatus.ERROR), quick=True
        ),
        users.user_filter(lambda context: selectors.users_of_volumes(context)[: users.MOST]),
        Filter("type", "Type", _types, same_id("volume_type"), closed=False),
        _yes("bootable"),
    ),
    kinds=KINDS,
    empty=Empty(
        "device-hdd",
        "No volumes yet",
        "A volume is a disk of its own: it can be attached to an instance, extended, snapshotted, backed up and booted "
        "from, and is kept when the instance is deleted.",
    ),
    create=HeadLink("New volume", "dashboard:volume_create", rule="volume:create", first="Create the first volume"),
    beside=(
        HeadLink(
            "Accept transfer", "dashboard:transfer_accept", "arrow-left-right", "volume:accept_transfer", asks=True
        ),
    ),
)


def _snapshot_rows(context: RequestContext, snapshots: Sequence[Snapshot]) -> list[Row]:
    return [rows.snapshot_row(context, each) for each in snapshots]


def _plain_name(of: str) -> Any:
    return lambda row: cells.name(row[of], below=row[of].description)


def _snapshot_buttons(row: Row) -> object:
    snapshot = row["snapshot"]
    create = cells.NOTHING
    if row["can_create_volume"]:
        create = cells.button(
            "plus-lg",
            "New volume",
            snapshot,
            "dashboard:volume_create",
            query=f"snapshot={snapshot.id.hex}",
            asks=False,
            label="New volume from {}",
        )
    return create + _CHANGE_SNAPSHOT(row)


_CHANGE_SNAPSHOT = _buttons(
    "snapshot",
    (
        *("can_revert", "arrow-counterclockwise", "Revert the volume", "dashboard:snapshot_revert"),
        "Revert the volume to {}",
    ),
    ("can_edit", "pencil", "Edit", "dashboard:snapshot_edit", ""),
    ("can_unmanage", "box-arrow-up", "Unmanage", "dashboard:snapshot_unmanage", ""),
    ("can_delete", "trash", "Delete", "dashboard:snapshot_delete", ""),
)
SNAPSHOTS = RecordList[Snapshot](
    key="volume_snapshots",
    model=Snapshot,
    one="snapshot",
    noun="snapshots",
    rule="volume:get_all_snapshots",
    row_id="snapshot",
    records=lambda context, _: selectors.visible_snapshots(context),
    rows=_snapshot_rows,
    default="-age",
    columns=(
        columns.name(_plain_name("snapshot"), itemgetter("snapshot")),
        _status("snapshot"),
        Column(
            "volume",
            "Volume",
            lambda row: cells.link(row["volume"], "dashboard:volume", row["volume"].id),
            sort=Lower("volume__name"),
        ),
        _size("snapshot"),
        columns.age("snapshot"),
        columns.ident("snapshot"),
    ),
    bulk=bulk_actions("volume_snapshots"),
    actions=_snapshot_buttons,
    search=searched("name", "description", "volume__name", exact=("pk", "volume")),
    find="Find by name, volume or ID",
    filters=(
        columns.status_filter(statuses.SNAPSHOT_STATUS, (SnapshotStatus.AVAILABLE, SnapshotStatus.ERROR), quick=True),
        Filter("volume", "Volume", lambda context: _volumes(context), same_id("volume"), closed=False),
    ),
    kinds=KINDS,
    empty=Empty(
        "camera",
        "No snapshots yet",
        "A snapshot is the state of a volume at one time. Take one on the volume's page.",
    ),
)


def _volumes(context: RequestContext) -> list[tuple[str, str]]:
    """Return the volumes with snapshots or backups."""
    copied = Q(snapshots__isnull=False) | Q(pk__in=copies.visible_backups(context).values("volume_id"))
    volumes = selectors.visible_volumes(context).filter(copied).order_by("name", "id").distinct()
    return [(str(each.id), str(each)) for each in volumes[:MOST]]


def _backup_rows(context: RequestContext, backups: Sequence[Backup]) -> list[Row]:
    volume_ids = {backup.volume_id for backup in backups}
    known = selectors.visible_volumes(context).filter(id__in=volume_ids) if volume_ids else ()
    names = {row.id: str(row) for row in known}
    return [{**rows.backup_row(context, each), "volume_name": names.get(each.volume_id, "")} for each in backups]


def _backup_name(row: Row) -> object:
    backup = row["backup"]
    return cells.name(backup, beside=("incremental" if backup.parent_id else "",), below=backup.description)


def _volume_of(row: Row) -> object:
    if not row["volume_name"]:
        return format_html('<span class="faint">{}</span>', "deleted")
    return cells.link(row["volume_name"], "dashboard:volume", row["backup"].volume_id)


def _stored(row: Row) -> object:
    return cells.join(
        "", (cells.gib(row["backup"].size_gb), cells.sub(f"{size_in_bytes(row['backup'].stored_bytes)} stored"))
    )


BACKUPS = RecordList[Backup](
    key="volume_backups",
    model=Backup,
    one="backup",
    noun="backups",
    rule="backup:get_all",
    row_id="backup",
    records=lambda context, _: copies.visible_backups(context),
    rows=_backup_rows,
    default="-age",
    columns=(
        columns.name(_backup_name, itemgetter("backup")),
        _status("backup", "fail_reason"),
        Column("volume", "Volume", _volume_of, sort="volume_id"),
        Column(
            "size",
            "Size",
            _stored,
            sort="size_gb",
            plain=lambda row: cells.gib(row["backup"].size_gb),
            css="num text-nowrap",
            largest_first=True,
        ),
        columns.age("backup"),
        columns.ident("backup"),
    ),
    bulk=bulk_actions("volume_backups"),
    actions=_buttons(
        "backup",
        ("can_restore", "arrow-counterclockwise", "Restore", "dashboard:backup_restore", ""),
        ("can_delete", "trash", "Delete", "dashboard:backup_delete", ""),
    ),
    search=searched("name", "description", exact=("pk", "volume_id")),
    filters=(
        columns.status_filter(statuses.BACKUP_STATUS, (BackupStatus.AVAILABLE, BackupStatus.ERROR), quick=True),
        Filter("volume", "Volume", _volumes, same_id("volume_id"), closed=False),
    ),
    kinds=KINDS,
    empty=Empty(
        "archive",
        "No backups yet",
        "A backup is a copy of a volume outside its pool. Create one on the volume's page.",
    ),
)
