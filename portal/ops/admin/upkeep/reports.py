"""Reports of hosts that could not be processed, with their errors and retries."""

import json

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from portal.ops.admin.base import Readable
from portal.ops.admin.columns import column, tag
from provisioning.hosts import rejected
from provisioning.hosts.models import RejectedReport


@admin.register(RejectedReport)
class RejectedReportAdmin(Readable):
    """The reports whose processing failed: they are retried, or were given up."""

    rules = {"view": "novella:rejected_reports", "try_again": "novella:rejected_reports:try_again"}
    list_display = ("host", "kind", "subject_kind", "subject_id", "state", "tries", "error", "received_at", "due_at")
    list_filter = ("host", "kind", "subject_kind")
    ordering = ("-id",)
    actions = ("try_again",)
    fields = (
        "host", "seq", "kind", "subject_kind", "subject_id", "generation", "state", "tries", "error", "received_at",
        "due_at", "given_up_at", "text",
    )  # fmt: skip
    readonly_fields = ("state", "text")

    text = column(
        "the report",
        lambda report: format_html('<pre class="lines">{}</pre>', json.dumps(json.loads(report.event), indent=2)),
    )

    state = column(
        "state", lambda report: tag("bad", "given up") if report.given_up_at else tag("busy", "to be retried")
    )

    @admin.action(description="Try again now")
    def try_again(self, request: HttpRequest, queryset: QuerySet[RejectedReport]) -> None:
        """Retry reports immediately, including those that were given up."""
        again = rejected.try_now(list(queryset.values_list("pk", flat=True)))
        messages.success(request, f"Reports to be tried again: {again}.")
