"""Volumes: the list, the detail page, and the form for a new one."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import storage as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.views import Crumbs, DetailPage, RecordPage, SheetPage, name_of
from portal.dashboard.volumes.forms import BACKUP, FIELD_OF, IMAGE, SNAPSHOT, VOLUME, NewVolumeForm, sized
from portal.dashboard.volumes.listing import VOLUMES
from portal.dashboard.volumes.page_parts import page_parts
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import NOBODY
from provisioning.images import selectors as images
from provisioning.volumes import selectors, services
from provisioning.volumes.models import Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.selectors import copies
from provisioning.volumes.services.checks import known_zones
from provisioning.volumes.states import BackupStatus, SnapshotStatus, VolumeStatus

HOME = "dashboard:volumes"
PAGE = "dashboard:volume"
OFFERED = 200
"""Maximum number of sources of each kind that the form offers, newest first."""


class VolumePage(RecordPage[Volume]):
    """Base of the pages of one volume."""

    section = "volumes"
    back_to = HOME
    page_name = PAGE

    def look_up(self, identity: uuid.UUID) -> Volume:
        return selectors.volume_for(self.context, identity)

    def crumbs(self) -> Crumbs:
        return [(name_of(self.record), self.back())]


class VolumeList(ListPage):
    """The project's volumes."""

    records = VOLUMES
    lead = "Disks that are kept when instances are deleted."


class VolumeDetail(DetailPage[Volume], VolumePage):
    """One volume with its snapshots and backups."""

    rule = "volume:get"
    template = "dashboard/volumes/volumes/page.html"
    live_kind = "volume"

    def parts(self, identity: uuid.UUID, number: str) -> Mapping[str, Any]:
        return page_parts(self.context, identity, number)


class VolumeCreate(SheetPage):
    """The form for a new volume; the address can preselect its source (``?image=``, ``?snapshot=`` …)."""

    section = "volumes"
    rule = services.Create.rule
    back_to = HOME
    template = "dashboard/volumes/volumes/create.html"
    heading = "New volume"
    submit = "Create volume"

    def form(self, data: QueryDict | None = None) -> Form:
        return NewVolumeForm(
            data,
            self._offered(),
            types=selectors.visible_types(self.context).order_by("name"),
            default_type=selectors.default_type(self.context.project_id or NOBODY),
            zones=known_zones(),
            initial=self._initial(),
        )

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        named = {FIELD_OF[typed["source"]]: typed["source_id"]} if typed["source_id"] else {}
        volume = services.Create.begin(
            self.context,
            VolumeRequest(
                size_gb=typed["size"],
                name=typed["name"],
                description=typed["description"],
                volume_type=typed["volume_type"],
                availability_zone=typed.get("availability_zone", ""),
                **named,
            ),
        )
        how = "could not be created" if volume.status == VolumeStatus.ERROR else "is being created"
        return self.go(PAGE, volume.id, message=f"{name_of(volume)} {how}.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        names = ("name", "description", "size", "volume_type", "availability_zone")
        source = {FIELD_OF[typed["source"]]: typed["source_id"]} if typed["source_id"] else {}
        return [Call(copied.VOLUME, {**{name: typed.get(name) for name in names}, **source})]

    def about(self) -> str:
        return "A disk that can be attached to one instance after another and is kept when they are deleted."

    def _offered(self) -> dict[str, list[tuple[str, str]]]:
        """Return the available sources of a volume by kind."""
        context = self.context
        snapshots = selectors.visible_snapshots(context).filter(status=SnapshotStatus.AVAILABLE)
        at_rest = [VolumeStatus.AVAILABLE, VolumeStatus.IN_USE]
        volumes = selectors.visible_volumes(context).filter(status__in=at_rest)
        backups = copies.visible_backups(context).filter(status=BackupStatus.AVAILABLE)
        usable = images.usable_images_for(context) if self.allows("volume:create_from_image") else []
        return {
            IMAGE: [(str(each.id), each.name or str(each.id)) for each in usable],
            SNAPSHOT: [
                (str(each.id), f"{bdi(each)} ({each.size_gb} GiB, of {bdi(each.volume)})")
                for each in snapshots.order_by("-created_at")[:OFFERED]
            ],
            VOLUME: [(str(each.id), sized(each)) for each in volumes.order_by("-created_at")[:OFFERED]],
            BACKUP: [(str(each.id), sized(each)) for each in backups.order_by("-created_at")[:OFFERED]]
            if self.allows("backup:get_all")
            else [],
        }

    def _initial(self) -> dict[str, Any]:
        """Return the initial values in the address: ``?image=ID``, ``?snapshot=ID`` and so on."""
        kind = next((kind for kind in FIELD_OF if self.request.GET.get(kind)), "")
        if not kind:
            return {}
        named = self.request.GET[kind]
        size: dict[str, int] = {}
        if kind == SNAPSHOT:
            size = {"size": selectors.snapshot_for(self.context, named).size_gb}
        elif kind == VOLUME:
            size = {"size": selectors.volume_for(self.context, named).size_gb}
        elif kind == BACKUP:
            size = {"size": copies.backup_for(self.context, named).size_gb}
        return {"source": kind, kind: named, **size}
