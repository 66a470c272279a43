"""Values that the servers of the caller's project have, which lists offer as filters; at most ``MOST`` of each."""

import uuid
from collections.abc import Iterable

from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.compute.models import Instance, InstanceTag
from provisioning.compute.selectors.instance_lists import narrowed
from provisioning.compute.selectors.instances import ALL_PROJECTS
from provisioning.identity import policy
from provisioning.network.models import Port

MOST = 200
Choices = list[tuple[str, str]]


def listed_instances(context: RequestContext, status: str = "") -> QuerySet[Instance]:
    """Return the servers of the caller's project with an API status, or all that are not deleted, unordered."""
    rows = Instance.objects.filter(project_id=context.project_id or NOBODY)
    return narrowed(rows, {"status": status or None}, operator=policy.allows(context, ALL_PROJECTS))


def on_network(network_id: uuid.UUID) -> Q:
    """Match the servers with a port on a network."""
    return Q(Exists(Port.objects.filter(device_id=OuterRef("pk"), network_id=network_id)))


def images(context: RequestContext) -> Choices:
    """Return ids and names of images."""
    rows = listed_instances(context).exclude(image_id=None).order_by("image_name", "image_id")
    return [(str(key), name or str(key)) for key, name in rows.values_list("image_id", "image_name").distinct()[:MOST]]


def flavors(context: RequestContext) -> Choices:
    """Return ids and names of flavors."""
    named = {key: KeyTextTransform(key, "flavor", output_field=CharField()) for key in ("flavorid", "name")}
    rows = listed_instances(context).annotate(_id=named["flavorid"], _name=named["name"]).order_by("_name", "_id")
    return [(key, name) for key, name in rows.values_list("_id", "_name").distinct()[:MOST] if key]


def tags(context: RequestContext) -> Choices:
    rows = InstanceTag.objects.filter(instance__in=listed_instances(context)).order_by("tag")
    return _same(rows.values_list("tag", flat=True).distinct()[:MOST])


def zones(context: RequestContext) -> Choices:
    """Return the availability zones of hosts."""
    return _same(_distinct(listed_instances(context), "host__availability_zone"))


def hosts(context: RequestContext) -> Choices:
    """Return names of hosts; only operators may filter by them."""
    return _same(_distinct(listed_instances(context), "host__name"))


def keys(context: RequestContext) -> Choices:
    """Return names of key pairs."""
    return _same(_distinct(listed_instances(context), "key_name"))


def users(context: RequestContext) -> QuerySet[Instance, uuid.UUID]:
    """Return the ids of the users who launched servers."""
    return listed_instances(context).order_by("user_id").values_list("user_id", flat=True).distinct()


def has_several_users(context: RequestContext) -> bool:
    """Return whether another user than the caller has servers in the project."""
    return listed_instances(context).exclude(user_id=context.user_id or NOBODY).exists()


def _distinct(rows: QuerySet[Instance], column: str) -> Iterable[str]:
    records = rows.annotate(_value=F(column)).exclude(_value=None).order_by("_value")
    return records.values_list("_value", flat=True).distinct()[:MOST]


def _same(values: Iterable[str]) -> Choices:
    return [(value, value) for value in values if value]
