"""Live updates of the volume pages: their parts rendered again."""

from collections.abc import Callable, Mapping
from typing import Any

from django.template.loader import render_to_string

from portal.dashboard.volumes import rows
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.identity import policy

Parts = Callable[..., dict[str, Any]]
LISTS: Mapping[str, tuple[str, str, Parts]] = {
    "volumes": ("volume:get_all", "volumes", rows.list_parts),
    "volume_snapshots": ("volume:get_all_snapshots", "snapshots", rows.snapshot_parts),
    "volume_backups": ("backup:get_all", "backups", rows.backup_parts),
}
"""Page → its policy rule, template directory, and the function for its context."""


PAGES = (*LISTS, "volume")


def render(page: str, context: RequestContext) -> str:
    """Return the page's parts as HTML with ids; empty if the caller may not see them.

    NotFoundError is rendered as a notice.
    """
    kind, _, rest = page.partition("/")
    if kind in LISTS:
        rule, folder, parts = LISTS[kind]
        if not policy.allows(context, rule):
            return ""
        return render_to_string(f"dashboard/volumes/{folder}/_table.html", parts(context, rest))
    if not policy.allows(context, "volume:get", {"project_id": context.project_id}):
        return ""
    try:
        return render_to_string("dashboard/volumes/volumes/_live.html", rows.page_parts(context, rest))
    except NotFoundError:
        return render_to_string("dashboard/records/_gone.html")
