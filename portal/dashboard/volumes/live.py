"""Live updates of the volume pages: their parts rendered again."""

from django.template.loader import render_to_string

from portal.dashboard.volumes.page_parts import page_parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.identity import policy


def render(page: str, context: RequestContext) -> str:
    """Return the page's parts as HTML with ids; empty if the caller may not see them.

    NotFoundError is rendered as a notice.
    """
    _, _, rest = page.partition("/")
    if not policy.allows(context, "volume:get", {"project_id": context.project_id}):
        return ""
    try:
        return render_to_string("dashboard/volumes/volumes/_live.html", page_parts(context, rest))
    except NotFoundError:
        return render_to_string("dashboard/records/_gone.html")
