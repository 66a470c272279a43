"""The list of instances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.conf import settings
from django.db.models import Q
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Lower

from portal.dashboard.graphs import sparklines
from portal.dashboard.graphs.parts import OF_SERVER
from portal.dashboard.instances.lists.changes import HOST, INSTANCE, NETWORK, changed_instances
from portal.dashboard.instances.lists.rows import InstanceRow, rows_for
from portal.dashboard.lists import cells, users
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, same, same_id
from portal.dashboard.templatetags import novella as tags
from portal.dashboard.words.markup import format_html
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.compute.models import Instance
from provisioning.compute.selectors import instance_choices
from provisioning.compute.selectors.instances import ALL_PROJECTS, listed_instances
from provisioning.identity import policy
from provisioning.network import addressing
from provisioning.network import selectors as network

STATUSES = (("ACTIVE", "Active"), ("BUILD", "Building"), ("SHUTOFF", "Stopped"), ("ERROR", "Error"))
"""Statuses to filter by: the API's name and the label."""
DELETED = ("SOFT_DELETED", "Deleted")


def _statuses(_: RequestContext) -> Iterable[tuple[str, str]]:
    """Return the statuses to filter by. Soft-deleted instances are listed only under the status ``SOFT_DELETED``."""
    return (*STATUSES, DELETED) if settings.RECLAIM_INSTANCE_INTERVAL else STATUSES


def _networks(context: RequestContext) -> list[tuple[str, str]]:
    networks = network.networks_own_first(context).prefetch_related(None)[: instance_choices.MOST]
    return [(str(each.id), str(each)) for each in networks]


def _search(context: RequestContext, text: str) -> Q:
    """Match a part of the name or of another user's name, an id, an address, or the beginning of an IPv4 address
    (``10.20.``).
    """
    if key := read_id(text):
        return Q(name__icontains=text) | Q(pk=key)
    try:
        whole = str(addressing.read_address(text)) if "." in text or ":" in text else ""
    except ValueError:
        whole = ""
    if whole or _begins_address(text):
        return Q(pk__in=network.device_ids_at(context, whole or text, begins=not whole))
    return Q(name__icontains=text) | users.of_users_named(context, text)


def _begins_address(text: str) -> bool:
    parts = text.rstrip(".").split(".")
    return "." in text and len(parts) + text.endswith(".") > 1 and all(part.isdigit() for part in parts)


def _on_network(_: RequestContext, value: str) -> Q:
    key = read_id(value)
    return instance_choices.on_network(key) if key else Q(pk__in=[])


def _name(row: InstanceRow) -> object:
    return cells.name(row.instance.name, row.address)


def _size(row: InstanceRow) -> object:
    return cells.bdi(row.instance.flavor["name"]) + cells.sub(row.size)


def _addresses(row: InstanceRow) -> object:
    return tags.addresses(row.addresses) if row.addresses else ""


def _plain_addresses(row: InstanceRow) -> str:
    return ", ".join(each for entry in row.addresses for each in (entry.address, *entry.floating))


def _menu(row: InstanceRow) -> object:
    """Render the button of the actions' menu, which page.js fetches; without scripts it is a link to a page."""
    return format_html(
        '<div class="dropdown"><a href="{}actions/" aria-label="Actions on {}" class="btn btn-bare btn-sm btn-icon" '
        'role="button" data-bs-toggle="dropdown" data-row-menu aria-expanded="false">{}</a>'
        '<div class="dropdown-menu dropdown-menu-end"></div></div>',
        row.address,
        row.instance.name,
        cells.icon("three-dots"),
    )


def _zone(row: InstanceRow) -> str:
    return row.instance.host.availability_zone if row.instance.host else row.instance.availability_zone


def _tags(row: InstanceRow) -> object:
    return cells.join(" ", map(cells.tag, row.instance.tags))


def _rows(context: RequestContext, instances: Sequence[Instance]) -> list[InstanceRow]:
    rows = rows_for(context, instances)
    if not policy.allows(context, OF_SERVER):
        return rows
    lines = sparklines.of_servers(instances)
    return [replace(row, line=lines.get(row.instance.id, row.line)) for row in rows]


INSTANCES = RecordList[Instance](
    key="instances",
    model=Instance,
    one="instance",
    noun="instances",
    rule="os_compute_api:servers:detail",
    row_id="instance",
    records=lambda context, values: instance_choices.listed_instances(context, values.get("status", "")),
    loaded=listed_instances,
    rows=_rows,
    default="-age",
    columns=(
        Column("name", "Name", _name, sort=Lower("name"), css="name", titled=False),
        Column(
            "status",
            "Status",
            lambda row: row.state,
            sort=("vm_state", "task_state"),
            plain=lambda row: row.status.word,
            titled=False,
        ),
        Column("addresses", "Addresses", _addresses, plain=_plain_addresses),
        Column(
            "size",
            "Size",
            _size,
            sort=(KeyTransform("memory_mb", "flavor"), KeyTransform("vcpus", "flavor")),
            plain=lambda row: row.instance.flavor["name"],
            css="text-nowrap",
            largest_first=True,
        ),
        Column(
            "image",
            "Image",
            lambda row: cells.bdi(row.instance.image_name),
            sort=Lower("image_name"),
            css="muted wide-only",
        ),
        Column("cpu", "Processor", lambda row: row.line, rule=OF_SERVER, picture=True, css="wide-only"),
        users.column(
            lambda row: (row.instance.user_id, row.user), "dashboard:instances", instance_choices.has_several_users
        ),
        Column("key", "Key pair", lambda row: cells.bdi(row.instance.key_name or ""), sort="key_name", optional=True),
        Column("tags", "Tags", _tags, plain=lambda row: ", ".join(row.instance.tags), optional=True),
        Column(
            "description",
            "Description",
            lambda row: cells.bdi(row.instance.description or ""),
            sort="description",
            css="muted",
            optional=True,
        ),
        Column("zone", "Zone", _zone, sort="host__availability_zone", css="muted", optional=True),
        Column(
            "host",
            "Host",
            lambda row: cells.bdi(row.instance.host_name),
            sort="host__name",
            optional=True,
            rule=ALL_PROJECTS,
        ),
        Column(
            "age",
            "Age",
            lambda row: cells.ago(row.instance.created_at),
            sort="created_at",
            plain=lambda row: row.instance.created_at,
            css="muted num text-nowrap",
            largest_first=True,
        ),
        Column("id", "ID", lambda row: row.ident, sort="id", css="mono xsmall muted", optional=True),
    ),
    actions=_menu,
    search=_search,
    find="Find by name, user, address or ID",
    filters=(
        Filter("status", "Status", _statuses, quick=True),
        Filter("network", "Network", _networks, _on_network, closed=False, rule="get_network"),
        Filter("image", "Image", instance_choices.images, same_id("image_id"), closed=False),
        Filter("flavor", "Size", instance_choices.flavors, same("flavor__flavorid"), closed=False),
        Filter("tag", "Tag", instance_choices.tags, same("tag_rows__tag"), closed=False),
        Filter("key", "Key pair", instance_choices.keys, same("key_name"), closed=False),
        users.user_filter(lambda context: instance_choices.users(context)[: users.MOST]),
        Filter("zone", "Zone", instance_choices.zones, same("host__availability_zone"), closed=False),
        Filter(
            "host",
            "Host",
            instance_choices.hosts,
            same("host__name"),
            closed=False,
            rule=ALL_PROJECTS,
        ),
    ),
    bulk=bulk_actions("instances"),
    kinds=frozenset({INSTANCE, NETWORK, HOST}),
    changed=changed_instances,
    announcement=lambda row: row.announcement,
    named=lambda instance: instance.name,
    empty=Empty(
        "hdd-stack",
        "No instances yet",
        "An instance is a virtual machine of your own. Choose an image, a size and your SSH key, and follow "
        "its creation step by step. A small one runs within seconds.",
        without_create="Your role is read-only. Launching needs the role member.",
    ),
    create=HeadLink(
        "Launch instance",
        "dashboard:launch",
        rule="os_compute_api:servers:create",
        first="Launch the first instance",
    ),
)
