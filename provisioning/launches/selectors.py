"""Queries of leases, launch templates and snippets."""

import uuid
from collections.abc import Collection
from typing import Any

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.disks import block_devices
from provisioning.compute.launch.create import has_no_password
from provisioning.compute.launch.mounts import SHOWN_SERIAL, mounted_disks
from provisioning.compute.launch.multipart import added_names
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.records.names import disk_name
from provisioning.launches.cloud_config.builtin import BUILT_IN
from provisioning.launches.models import InstanceLease, LaunchTemplate, LaunchTemplateVersion, Snippet
from provisioning.launches.plans.openings import opening_among
from provisioning.launches.plans.plan import MOST_DISKS, DataDisk, default_disk_name
from provisioning.network.models import FloatingIP


def lease_of(instance_id: uuid.UUID) -> InstanceLease | None:
    return InstanceLease.objects.filter(instance_id=instance_id).first()


def leases_of(instance_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, InstanceLease]:
    return InstanceLease.objects.in_bulk(list(instance_ids))


def templates_for(context: RequestContext) -> QuerySet[LaunchTemplate]:
    """Return the project's launch templates and the public ones."""
    return LaunchTemplate.objects.filter(Q(project_id=context.project_id or NOBODY) | Q(public=True))


def template_for(context: RequestContext, template_id: uuid.UUID | str) -> LaunchTemplate:
    """Return a visible launch template. Raises NotFoundError."""
    key = read_id(str(template_id))
    launch_template = templates_for(context).filter(pk=key).first() if key else None
    if launch_template is None:
        raise NotFoundError("The launch template does not exist.")
    return launch_template


def template_with_slug(context: RequestContext, slug: str) -> LaunchTemplate:
    """Return the project's launch template with this link, otherwise the public one. Raises NotFoundError."""
    rows = templates_for(context).filter(slug=slug)
    launch_template = next(iter(sorted(rows, key=lambda row: row.project_id != context.project_id)), None)
    if launch_template is None:
        raise NotFoundError("The launch template does not exist.")
    return launch_template


def own_template_for(context: RequestContext, template_id: uuid.UUID | str) -> LaunchTemplate:
    """Return a launch template of the caller's project. Raises NotFoundError."""
    launch_template = template_for(context, template_id)
    if launch_template.project_id != context.project_id:
        raise NotFoundError("The launch template does not exist in this project.")
    return launch_template


def version_of(template: LaunchTemplate, number: int | None = None) -> LaunchTemplateVersion:
    """Return a version, the default one for None. Raises NotFoundError."""
    version = template.versions.filter(number=template.default_version if number is None else number).first()
    if version is None:
        raise NotFoundError("The launch template does not have this version.")
    return version


def snippets_for(context: RequestContext) -> QuerySet[Snippet]:
    """Return the project's snippets, by name."""
    return Snippet.objects.filter(project_id=context.project_id or NOBODY).order_by("name")


def snippet_for(context: RequestContext, snippet_id: uuid.UUID | str) -> Snippet:
    """Return a snippet of the project. Raises NotFoundError."""
    key = read_id(str(snippet_id))
    snippet = snippets_for(context).filter(pk=key).first() if key else None
    if snippet is None:
        raise NotFoundError("The snippet does not exist.")
    return snippet


def choices_of(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the fields of a server's plan that are not columns of the server: volumes, security groups, openings,
    floating IP, snippets and password. Values that no longer exist are omitted.
    """
    groups = [str(each) for each in instance.security_groups]
    result = {
        **disks_of(instance),
        "snippets": tuple(_snippets_of(context, instance)),
        "security_groups": tuple(groups),
    }
    result["password"] = not has_no_password(instance)
    if FloatingIP.objects.filter(with_instance=instance.id).exists():
        openings, group = opening_among(context, groups)
        rest = tuple(each for each in groups if each != group)
        result |= {"reachable": True, "openings": openings, "security_groups": rest}
    return result


def _snippets_of(context: RequestContext, instance: Instance) -> list[str]:
    names = added_names(instance.user_data or "")
    ids = [name for name in names if name not in BUILT_IN and read_id(name)]
    own = {str(key) for key in snippets_for(context).filter(pk__in=ids).values_list("pk", flat=True)} if ids else set()
    return [name for name in names if name in BUILT_IN or name in own]


def _own_name(instance: Instance, disk: BlockDevice, position: int) -> str:
    """Return the name of a data disk; empty if it was derived from the server's name."""
    derived = disk_name(default_disk_name(position), instance.name, 0, 1)
    return "" if disk.volume_name == derived else disk.volume_name


def disks_of(instance: Instance) -> dict[str, Any]:
    """Return the fields of a plan for the volumes that a server's launch has created; empty if it has created none."""
    devices = block_devices.volumes_of(instance.id)
    result: dict[str, Any] = {}
    for root in devices:
        if root.is_root and root.source_type == "image":
            result = {"image": str(root.source_id), "on_volume": True, "volume_size": root.size}
            result["delete_volume"] = root.delete_on_termination
    if data := [each for each in devices if each.source_type == "blank" and not each.is_root][:MOST_DISKS]:
        mounted = mounted_disks(instance.user_data)
        serials = [str(each.volume_id or each.id)[:SHOWN_SERIAL] for each in data]
        result["disks"] = tuple(
            DataDisk(each.size or 1, mounted.get(serial, ""), _own_name(instance, each, position))
            for position, (each, serial) in enumerate(zip(data, serials, strict=True))
        )
        result["delete_disks"] = any(each.delete_on_termination for each in data)
    return result
