"""Volumes and attachments of all projects, read-only, with actions for stuck volumes and attachments."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.common import statuses
from portal.ops.admin.base import row_action
from portal.ops.admin.columns import StatusFilter, by_id, column, link_to, rows_link, status
from portal.ops.admin.owned import ReadableInline
from portal.ops.admin.volumes.parts import OfVolumes, progress_of
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.compute.models import Instance
from provisioning.volumes.models import Attachment, Message, Snapshot, StoragePool, Volume, VolumeType
from provisioning.volumes.selectors.pools import host_of, servings
from provisioning.volumes.services import (
    Delete,
    Migrate,
    Retype,
    RetypeRequest,
    VolumeDeletion,
    force_detach,
    reset_status,
)
from provisioning.volumes.states import VolumeStatus

MOST_USERS = 3
"""Maximum number of servers that a row names."""
STATUSES = (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE, VolumeStatus.ERROR, VolumeStatus.MAINTENANCE)


def _statuses() -> list[tuple[str, str]]:
    return [(each.value, statuses.volume_status(each).word) for each in STATUSES]


def _pools() -> list[tuple[str, str]]:
    rows = StoragePool.objects.filter(enabled=True, frozen=False).prefetch_related(servings()).order_by("name", "id")
    return [(str(pool.id), f"{host_of(pool)} ({pool.free_gb:.0f} GiB free)") for pool in rows]


class PoolFilter(admin.RelatedFieldListFilter):
    """Filters by pool; each pool is shown by host, driver and name."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the pools by id."""
        return [
            (str(pool.pk), host_of(pool))
            for pool in StoragePool.objects.prefetch_related(servings()).order_by("name", "id")
        ]


def _types() -> list[tuple[str, str]]:
    return [(str(kind.id), kind.name) for kind in VolumeType.objects.order_by("name")]


class AttachmentInline(ReadableInline):
    """The attachments of a volume."""

    model = Attachment
    fields = readonly_fields = ("instance_id", "state", "host", "mountpoint", "mode", "attached_at")
    state = column("status", status)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attachment]:
        rows: QuerySet[Attachment] = super().get_queryset(request)
        return rows.select_related("host")


class SnapshotInline(ReadableInline):
    """The snapshots of a volume."""

    model = Snapshot
    fields = readonly_fields = ("name", "state", "size_gb", "created_at")
    state = column("status", status)


def _size(volume: Volume) -> str:
    grows = f" → {volume.wanted_gb}" if volume.wanted_gb else ""
    return f"{volume.size_gb}{grows} GiB".replace(" ", "\u00a0")


def _servers(volumes: Sequence[Volume]) -> dict[Any, list[Instance | Attachment]]:
    """Return volume → the servers that use it, or its attachments outside the cloud."""
    ids = {each.instance_id for row in volumes for each in row.attachments.all() if each.instance_id}
    servers = Instance.objects.in_bulk(ids)
    return {row.pk: [servers.get(each.instance_id) or each for each in row.attachments.all()] for row in volumes}


def _users(_: Volume, servers: Sequence[Instance | Attachment]) -> SafeString:
    """Render links to the first servers or attachments, and the number of others."""
    links = [(link_to(each, "" if isinstance(each, Instance) else status(each)),) for each in servers[:MOST_USERS]]
    more = len(servers) - len(links)
    shown = format_html_join(", ", "{}", links) or SafeString("-")
    return format_html("{} and {} more", shown, more) if more > 0 else shown


def _newest_message(volume: Volume) -> str | SafeString:
    """Return the newest message with a link to all of them."""
    newest = Message.objects.filter(resource_id=volume.id).order_by("-created_at").first()
    return rows_link(Message, "resource_id__exact", volume.id, newest.text) if newest else "-"


def _source(volume: Volume) -> str:
    named = [(kind, getattr(volume, f"source_{kind}_id")) for kind in ("image", "snapshot", "volume", "backup")]
    return ", ".join(f"{kind} {key}" for kind, key in named if key) or "nothing"


@admin.register(Volume)
class VolumeAdmin(OfVolumes):
    rules = OfVolumes.rules | {
        "reset": "volume_extension:volume_admin_actions:reset_status",
        "detach": "volume_extension:volume_admin_actions:force_detach",
        "migrate": Migrate.rule,
        "change_type": Retype.rule,
        "force_delete": "volume_extension:volume_admin_actions:force_delete",
    }
    list_display = ("__str__", "state", "size", "project", "volume_type", "place", "used_by", "created_at")
    list_filter = (("status", StatusFilter), ("pool", PoolFilter), "volume_type", "bootable", "multiattach")
    list_select_related = ("pool", "volume_type")
    search_fields = ("name", "id__startswith", "project_id__startswith", "attachments__instance_id__startswith")
    search_help_text = "Name or id of a volume, id of a server, or project"
    actions = ("reset", "detach", "migrate", "change_type", "force_delete")
    inlines = (AttachmentInline, SnapshotInline)
    fields = (
        "name", "id", "state", "why", "previous_status", "deadline", "progress", "project", "size", "volume_type",
        "pool", "daemon_host", "encrypted", "bootable", "read_only", "multiattach", "availability_zone", "made_from",
        "migration_status", "metadata", "image_metadata", "description", "launched_at", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = (*OfVolumes.readonly_fields, "why", "progress", "size", "encrypted", "made_from")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Volume]:
        rows: QuerySet[Volume] = super().get_queryset(request)
        return rows.prefetch_related("attachments", servings("pool__"))

    size = column("size", _size, ordering="size_gb")
    place = column("pool", lambda volume: host_of(volume.pool) if volume.pool else "-", ordering="pool__name")

    used_by = column("used by", _users, read=_servers)
    why = column("its newest message", _newest_message)
    progress = column("progress", progress_of)
    encrypted = column("encrypted", lambda volume: bool(volume.encryption_key), boolean=True)

    made_from = column("source", _source)

    @row_action(
        "Reset status", "Volumes given that status", question="Which status do these volumes have?", choices=_statuses
    )
    def reset(self, context: RequestContext, volume: Volume, status: str) -> None:
        reset_status(context, volume.id, status=status)

    @row_action(
        "Force detach: release the attachment without the server",
        "Volumes detached",
        question="Detach these volumes from their servers? A running server loses its disk.",
    )
    def detach(self, context: RequestContext, volume: Volume) -> None:
        force_detach(context, volume.id)

    @row_action(
        "Move to another pool",
        "Volumes that are migrating",
        question="To which pool should these volumes move? They stay attached to their servers.",
        choices=_pools,
    )
    def migrate(self, context: RequestContext, volume: Volume, pool_id: str) -> None:
        Migrate.begin(context, volume.id, read_id(pool_id) or volume.id)

    @row_action(
        "Change the type, moving the data where that is needed",
        "Volumes given that type",
        question="Which type should these volumes have?",
        choices=_types,
    )
    def change_type(self, context: RequestContext, volume: Volume, type_id: str) -> None:
        Retype.begin(context, volume.id, RetypeRequest(type_id, "on-demand"))

    @row_action(
        "Force delete with its snapshots, with any status",
        "Volumes being deleted",
        question="Delete these volumes and their snapshots permanently?",
    )
    def force_delete(self, context: RequestContext, volume: Volume) -> None:
        Delete.begin(context, volume.id, VolumeDeletion(cascade=True, force=True))


@admin.register(Attachment)
class AttachmentAdmin(OfVolumes):
    rules = OfVolumes.rules | {"release": "volume_extension:volume_admin_actions:force_detach"}
    list_display = ("volume", "state", "server", "host", "mountpoint", "mode", "project", "attached_at")
    list_filter = (("status", StatusFilter), "mode", "host")
    list_select_related = ("volume", "host")
    search_fields = ("id__startswith", "volume__id__startswith", "volume__name", "instance_id__startswith")
    search_help_text = "Id of an attachment, volume or server, name of a volume, or project"
    actions = ("release",)
    fields = (
        "id", "state", "at_volume", "server", "host", "mountpoint", "mode", "project", "exclusive", "refreshing",
        "attached_at", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = (*OfVolumes.readonly_fields, "server", "at_volume")

    at_volume = column("volume", "volume", ordering="volume__name", link=True)

    server = column(
        "server",
        lambda _, found: found or "an external client",
        read=by_id(Instance.objects.in_bulk, "instance_id"),
        ordering="instance_id",
        link=True,
    )

    @row_action(
        "Force detach: release without the server",
        "Attachments released",
        question="Release these attachments? A running server loses its disk.",
    )
    def release(self, context: RequestContext, attachment: Attachment) -> None:
        force_detach(context, attachment.volume_id, attachment.id)


def _subject(message: Message) -> str | SafeString:
    """Return a link to the volume, or the id of another resource."""
    if message.resource_type != "VOLUME" or message.resource_id is None:
        return str(message.resource_id or "-")
    page = reverse("admin:volumes_volume_change", args=[message.resource_id])
    return format_html('<a href="{}">{}</a>', page, message.resource_id)


@admin.register(Message)
class MessageAdmin(OfVolumes):
    """Messages to users about failed tasks."""

    rules = {"view": "volume_extension:volume_host_attribute"}
    list_display = ("text", "resource_type", "about", "project", "created_at")
    list_filter = ("resource_type", "created_at")
    narrowed_by = ("resource_id",)
    search_fields = ("text", "resource_id__startswith", "request_id")
    search_help_text = "A part of a message, id of a volume, snapshot or backup, or project"
    fields = (
        "text", "resource_type", "about", "project", "request_id", "action_id", "detail_id", "created_at", "expires_at",
    )  # fmt: skip
    readonly_fields = ("project", "about")

    about = column("about", _subject, ordering="resource_id")
