"""Live updates of the tray, and of the results of a batch. Both depend on the user."""

from django.template.loader import render_to_string

from portal.dashboard.frame.tray import results_of, row_of, tray_for
from provisioning.batches.selectors import batch_for
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id


def render_tray(context: RequestContext) -> str:
    """Render the tray; it is empty for a context without the user."""
    return render_to_string("dashboard/batches/_tray.html", {"tray": tray_for(context)})


def render_batch(batch_id: str, context: RequestContext) -> str:
    """Render the results of one of the caller's batches, or nothing."""
    try:
        batch = batch_for(context, read_id(batch_id) or NOBODY)
    except NotFoundError:
        return ""
    return render_to_string("dashboard/batches/_results.html", {"row": row_of(batch), "results": results_of(batch)})
