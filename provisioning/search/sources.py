"""The kinds of resources that are searched: which rows a caller sees, and in which columns a text is found."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.compute.models import Instance, InstanceTag, KeyPair
from provisioning.compute.selectors.catalog import visible_flavors
from provisioning.compute.selectors.server_groups import visible_server_groups
from provisioning.hosts.models import Host
from provisioning.identity.models import Group, Project, User
from provisioning.images import selectors as images
from provisioning.images.models import ImageTag
from provisioning.network.models import Tag
from provisioning.network.selectors import records, routing
from provisioning.volumes import selectors as volumes
from provisioning.volumes.selectors import copies

Rows = Callable[[RequestContext, bool], QuerySet[Any]]
"""Caller, and whether resources of all projects are searched → the rows that the caller sees."""


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of resources, in the order of the results.

    ``rule`` is the policy rule of its list; ``addresses`` are columns of which the beginning is compared; ``tagged``
    returns the condition for a tag.
    """

    kind: str
    label: str
    rule: str
    rows: Rows
    names: Sequence[str] = ("name",)
    addresses: Sequence[str] = ()
    tagged: Callable[[str], Q] | None = None
    in_project: bool = True
    """Whether it requires a token for a project."""
    by_id: bool = True
    detail: Callable[[Any], object] = lambda _: ""
    """Returns the text next to the name."""
    parent: Callable[[Any], uuid.UUID | None] = lambda _: None
    """Returns the resource whose page shows it, if it has no page of its own."""
    name_of: Callable[[Any], str] = lambda row: str(row.name)
    ident: Callable[[Any], str] = lambda row: str(row.pk)


def _instances(context: RequestContext, everywhere: bool) -> QuerySet[Instance]:  # noqa: FBT001 - of type Rows
    rows = Instance.objects.filter(deleted_at=None)
    return rows if everywhere else rows.filter(project_id=context.project_id or NOBODY)


def _tagged_record(tag: str) -> Q:
    return Q(pk__in=Tag.objects.filter(tag__istartswith=tag).values("resource_id"))


def _of_domain(model: type[Model]) -> Rows:
    """Return the rows of the cloud for an operator, otherwise of the domain of the caller's token."""

    def rows(context: RequestContext, everywhere: bool) -> QuerySet[Any]:  # noqa: FBT001 - of type Rows
        every = model._default_manager.all()
        return every if everywhere else every.filter(domain_id=context.domain_id or "")

    return rows


def _hosts(_: RequestContext, everywhere: bool) -> QuerySet[Host]:  # noqa: FBT001 - of type Rows
    return Host.objects.all() if everywhere else Host.objects.none()


SOURCES = (
    Source(
        "instance",
        "Instance",
        "os_compute_api:servers:detail",
        _instances,
        names=("name", "hostname"),
        tagged=lambda tag: Q(pk__in=InstanceTag.objects.filter(tag__istartswith=tag).values("instance_id")),
    ),
    Source(
        "volume",
        "Volume",
        "volume:get_all",
        lambda context, everywhere: volumes.visible_volumes(context, all_projects=everywhere),
        detail=lambda row: f"{row.size_gb} GiB",
    ),
    Source(
        "network",
        "Network",
        "get_network",
        lambda context, everywhere: records.networks_for(context, all_projects=everywhere),
        tagged=_tagged_record,
    ),
    Source(
        "subnet",
        "Subnet",
        "get_subnet",
        lambda context, everywhere: records.subnets_for(context, all_projects=everywhere),
        addresses=("cidr",),
        tagged=_tagged_record,
        detail=lambda row: row.cidr,
        parent=lambda row: row.network_id,
        name_of=lambda row: str(row.name or row.cidr),
    ),
    Source(
        "router",
        "Router",
        "get_router",
        lambda context, everywhere: routing.routers_for(context, all_projects=everywhere),
        tagged=_tagged_record,
    ),
    Source(
        "floating_ip",
        "Floating IP",
        "get_floatingip",
        lambda context, everywhere: routing.floating_ips_for(context, all_projects=everywhere),
        names=("description",),
        addresses=("address",),
        tagged=_tagged_record,
        detail=lambda row: row.description,
        name_of=lambda row: str(row.address),
    ),
    Source(
        "security_group",
        "Security group",
        "get_security_group",
        lambda context, everywhere: records.security_groups_for(context, all_projects=everywhere),
        tagged=_tagged_record,
    ),
    Source(
        "port",
        "Port",
        "get_port",
        lambda context, everywhere: records.ports_for(context, all_projects=everywhere),
        addresses=("mac_address", "fixed_ips__address"),
        tagged=_tagged_record,
        detail=lambda row: ", ".join(each.address for each in row.fixed_ips.all()) or row.mac_address,
        parent=lambda row: row.network_id,
        name_of=lambda row: str(row.name or row.mac_address),
    ),
    Source(
        "image",
        "Image",
        "get_images",
        lambda context, _: images.visible_images(context),
        tagged=lambda tag: Q(pk__in=ImageTag.objects.filter(tag__istartswith=tag).values("image_id")),
    ),
    Source(
        "volume_snapshot",
        "Snapshot",
        "volume:get_all_snapshots",
        lambda context, everywhere: volumes.visible_snapshots(context, all_projects=everywhere),
        detail=lambda row: f"{row.size_gb} GiB",
    ),
    Source(
        "volume_backup",
        "Backup",
        "backup:get_all",
        lambda context, everywhere: copies.visible_backups(context, all_projects=everywhere),
        detail=lambda row: f"{row.size_gb} GiB",
    ),
    Source(
        "key_pair",
        "Key pair",
        "os_compute_api:os-keypairs:index",
        lambda context, _: KeyPair.objects.filter(user_id=context.user_id or NOBODY),
        by_id=False,
        detail=lambda row: row.fingerprint,
        ident=lambda row: str(row.name),
    ),
    Source(
        "server_group",
        "Server group",
        "os_compute_api:os-server-groups:index",
        lambda context, everywhere: visible_server_groups(context, all_projects=everywhere),
        detail=lambda row: row.policy,
    ),
    Source(
        "flavor",
        "Flavor",
        "novella:flavors:index",
        lambda context, _: visible_flavors(context),
        names=("name", "flavorid"),
        by_id=False,
        ident=lambda row: str(row.flavorid),
    ),
    Source("host", "Host", "novella:admin", _hosts, in_project=False),
    Source("project", "Project", "identity:list_projects", _of_domain(Project), in_project=False),
    Source("user", "User", "identity:list_users", _of_domain(User), names=("name", "email"), in_project=False),
    Source("group", "Group", "identity:list_groups", _of_domain(Group), in_project=False),
)
