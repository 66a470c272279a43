"""The list of launch templates."""

from collections.abc import Sequence
from typing import Any

from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, same, searched
from provisioning.common.context import RequestContext
from provisioning.identity import policy
from provisioning.launches import selectors
from provisioning.launches.models import LaunchTemplate
from provisioning.launches.services.templates import WRITE

READ = "novella:launch_templates:list"
Row = dict[str, Any]


def _rows(context: RequestContext, launch_templates: Sequence[LaunchTemplate]) -> list[Row]:
    launches, writes = policy.allows(context, "os_compute_api:servers:create"), policy.allows(context, WRITE)
    return [
        {"template": each, "can_launch": launches, "can_delete": writes and each.project_id == context.project_id}
        for each in launch_templates
    ]


def _link(row: Row) -> str:
    return f"/launch/t/{row['template'].slug}/"


def _visibility(row: Row) -> str:
    return "public" if row["template"].public else "this project"


def _buttons(row: Row) -> object:
    template, found = row["template"], []
    if row["can_launch"]:
        found.append(
            cells.button("rocket-takeoff", "Launch", template.name, "dashboard:launch_link", template.slug, asks=False)
        )
    if row["can_delete"]:
        found.append(cells.button("trash", "Delete", template.name, "dashboard:launch_template_delete", template.id))
    return cells.join("", found)


TEMPLATES = RecordList[LaunchTemplate](
    key="launch_templates",
    model=LaunchTemplate,
    one="launch template",
    noun="launch templates",
    rule=READ,
    row_id="launch-template",
    records=lambda context, _: selectors.templates_for(context),
    rows=_rows,
    default="name",
    columns=(
        columns.name(
            lambda row: cells.record(row["template"], "dashboard:launch_template"), lambda row: row["template"].name
        ),
        Column("link", "Link", lambda row: cells.mono(_link(row)), sort="slug", plain=_link),
        Column("version", "Version", lambda row: row["template"].default_version, sort="default_version", css="num"),
        Column("visibility", "Visibility", _visibility, sort="public", css="muted"),
        columns.age("template"),
        columns.ident("template"),
    ),
    actions=_buttons,
    search=searched("name", "slug"),
    find="Find by name or link",
    filters=(Filter("public", "Visibility", fixed(("False", "This project"), ("True", "Public")), same("public")),),
    empty=Empty(
        "rocket-takeoff",
        "No launch templates yet",
        "Fill in the launch wizard and choose Save as template below its summary, or choose it on the page of an "
        "instance.",
    ),
    create=HeadLink("New in the wizard", "dashboard:launch", rule=WRITE, first="Open the wizard"),
    beside=(HeadLink("Snippets", "dashboard:snippets", "file-earmark-code"),),
)
