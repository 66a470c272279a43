"""The list of flavors."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, searched
from portal.dashboard.words import wording
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.models import Flavor
from provisioning.identity import policy

Row = dict[str, Any]


def _rows(context: RequestContext, found: Sequence[Flavor]) -> list[Row]:
    can_delete = policy.allows(context, "os_compute_api:os-flavor-manage:delete")
    return [{"flavor": each, "can_delete": can_delete} for each in found]


def _disk(row: Row) -> str:
    flavor = row["flavor"]
    root = f"{flavor.root_gb} GiB" if flavor.root_gb else "the image's"
    return f"{root} + {flavor.ephemeral_gb} GiB" if flavor.ephemeral_gb else root


def _buttons(row: Row) -> object:
    flavor = row["flavor"]
    if not row["can_delete"]:
        return ""
    return cells.button("trash", "Delete", flavor.name, "dashboard:flavor_delete", flavor.flavorid)


def _visible(_: RequestContext, value: str) -> Q:
    return Q(is_public=value == "public")


FLAVORS = RecordList[Flavor](
    key="flavors",
    model=Flavor,
    one="flavor",
    noun="flavors",
    rule="novella:flavors:index",
    row_id="flavor",
    records=lambda context, _: selectors.visible_flavors(context),
    rows=_rows,
    default="memory",
    order=lambda _: ("memory_mb", "vcpus", "root_gb", "name"),
    columns=(
        columns.name(
            lambda row: cells.name(row["flavor"].name, below=row["flavor"].description),
            lambda row: row["flavor"].name,
        ),
        columns.attribute("vcpus", "vCPUs", "flavor", css="num"),
        Column(
            *("memory", "Memory", lambda row: wording.mebibytes(row["flavor"].memory_mb)),
            sort="memory_mb",
            css="num",
            largest_first=True,
        ),
        Column("disk", "Disk", _disk, sort=("root_gb", "ephemeral_gb"), css="num", largest_first=True),
        Column(
            *("visibility", "Visibility", lambda row: "public" if row["flavor"].is_public else "chosen projects"),
            sort="is_public",
            css="muted",
        ),
        Column("flavorid", "ID", lambda row: row["flavor"].flavorid, sort="flavorid", css="mono muted"),
    ),
    actions=_buttons,
    search=searched("name", "description", "flavorid", exact=()),
    filters=(
        Filter("visibility", "Visibility", fixed(("public", "Public"), ("private", "Chosen projects")), _visible),
    ),
    empty=Empty(
        "sliders",
        "No flavors yet",
        "A flavor is the number of virtual processors and the size of memory and disk of an instance. Operators "
        "create them; without one nothing can be launched.",
    ),
    create=HeadLink(
        *("New flavor", "dashboard:flavor_create"),
        rule="os_compute_api:os-flavor-manage:create",
        first="Create the first flavor",
    ),
)
