"""Disks and snapshots in a storage pool that have no record: their list, and the forms to manage them."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import storage as copied
from portal.dashboard.frame.forms import Form, OfferedField
from portal.dashboard.records.views import Crumbs, RecordsPage, SheetPage, other_project
from portal.dashboard.volumes.forms import VolumeNamesForm, type_choices
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import NOBODY
from provisioning.identity.selectors.lookups import names_of_projects
from provisioning.volumes import selectors
from provisioning.volumes.models import StoragePool, Volume
from provisioning.volumes.selectors.pools import host_of, pool_for
from provisioning.volumes.services.lifecycle.manage import Manage, ManageRequest, gib
from provisioning.volumes.services.lifecycle.manage_snapshots import (
    ManagedSnapshot,
    ManageSnapshot,
    unmanaged_in,
)

PAGE = "dashboard:pool_unmanaged"


class ManagedDiskForm(VolumeNamesForm):
    """The attributes of the volume that a disk becomes."""

    service_fields = {"size_gb": "name", "host": "volume_type"}

    volume_type = OfferedField(label="Type", required=False, widget=forms.Select)
    bootable = forms.BooleanField(required=False, help_text="An instance can start from it.")


class PoolPage(RecordsPage):
    """Base of the pages of one pool's unmanaged data."""

    section = "pools"
    pool: StoragePool

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        self.pool = pool_for(self.context, kwargs["pool_id"])
        return {}

    def crumbs(self) -> Crumbs:
        return [(self.pool.name, reverse("dashboard:pool", args=[self.pool.id])), ("Unmanaged data", self.back())]

    def back(self) -> str:
        return reverse(PAGE, args=[self.pool.id])


class UnmanagedData(PoolPage):
    """The unmanaged disks and snapshots of a pool, as its host reports them now."""

    rule = "volume_extension:list_manageable"

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        disks, snapshots = unmanaged_in(self.pool)
        projects = names_of_projects({each.volume.project_id for each in snapshots})
        context = {
            "pool": self.pool,
            "disks": [(each, gib(each.size)) for each in disks],
            "snapshots": [(each, projects.get(each.volume.project_id, "")) for each in snapshots],
            "can_manage": self.allows(Manage.rule),
            "can_manage_snapshots": self.allows(ManageSnapshot.rule),
        }
        return self.page("dashboard/cloud/unmanaged.html", context)

    def back(self) -> str:
        """Return the pool's page, which shows the error if its host does not answer."""
        return reverse("dashboard:pool", args=[self.pool.id])


class DiskManage(SheetPage, PoolPage):
    """The form to create a volume from an unmanaged disk."""

    rule = Manage.rule
    submit = "Manage"
    name: str

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        self.name = kwargs["name"]
        return super().target(**kwargs)

    def form(self, data: QueryDict | None = None) -> Form:
        form = ManagedDiskForm(data, initial={"name": self.name})
        types = selectors.visible_types(self.context).order_by("name")
        form.offer("volume_type", type_choices(types, selectors.default_type(self.context.project_id or NOBODY)))
        return form

    def save(self, form: Form) -> HttpResponse:
        volume = Manage.begin(self.context, ManageRequest(self.pool, self.name, **form.cleaned_data))
        return self.go("dashboard:volume", volume.id, message=f"{bdi(volume)} is being created from the disk.")

    def calls(self, form: Form) -> Sequence[Call]:
        ref = {"host": host_of(self.pool), "ref": {"source-name": self.name}}
        return [Call(copied.MANAGED_VOLUME, {**form.cleaned_data, **ref})]

    def title(self) -> str:
        return f"Manage {bdi(self.name)}"

    def about(self) -> str:
        return "The disk becomes a volume of the selected project, without a copy."


class SnapshotManage(SheetPage, PoolPage):
    """The form to create the record of an unmanaged snapshot."""

    rule = ManageSnapshot.rule
    submit = "Manage"
    name: str
    volume: Volume

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        super().target(**kwargs)
        self.name, self.volume = kwargs["name"], selectors.volume_for(self.context, kwargs["volume_id"])
        return {"project_id": self.volume.project_id}

    def form(self, data: QueryDict | None = None) -> Form:
        return VolumeNamesForm(data, initial={"name": self.name})

    def save(self, form: Form) -> HttpResponse:
        request = ManagedSnapshot(**form.cleaned_data, name_in_pool=self.name)
        ManageSnapshot.begin(self.context, self.volume.id, request)
        return self.go(self.back(), message="The record of the snapshot is being created.")

    def calls(self, form: Form) -> Sequence[Call]:
        ref = {"volume_id": str(self.volume.id), "ref": {"source-name": self.name}}
        return [Call(copied.MANAGED_SNAPSHOT, {**form.cleaned_data, **ref})]

    def title(self) -> str:
        return f"Manage {bdi(self.name)}"

    def about(self) -> str:
        owner = other_project(self.context, self.volume.project_id)
        of_project = f" in project {bdi(owner)}" if owner else ""
        return f"It becomes a snapshot of the volume {bdi(self.volume)}{of_project}, without a copy."
