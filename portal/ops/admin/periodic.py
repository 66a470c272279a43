"""Periodic jobs: their last run and its result."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.ops.admin.base import Readable, column
from provisioning.jobs.models import Lease
from provisioning.jobs.registry import periodic_jobs
from provisioning.jobs.selectors import Periodic, periodic, periodic_work


@admin.register(Lease)
class LeaseAdmin(Readable):
    """The periodic jobs, each with its lease."""

    rules = {"view": "novella:periodic"}
    list_display = ("name", "every", "state", "last_run_at", "took", "holder", "last_error")
    fields = ("name", "every", "state", "holder", "expires_at", "last_run_at", "last_finished_at", "took", "last_error")
    readonly_fields = ("every", "state", "took")
    search_fields = ("name",)
    ordering = ("name",)
    list_per_page = 100

    def get_queryset(self, request: HttpRequest) -> QuerySet[Lease]:
        """Exclude jobs that no longer exist."""
        rows: QuerySet[Lease] = super().get_queryset(request).filter(name__in=list(periodic_jobs))
        return rows

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show in the title which jobs have never run, as they have no row yet."""
        never = [job.name for job in periodic_work(timezone.now()) if not job.holder and job.last_run_at is None]
        title = f"Periodic work, never done: {', '.join(never)}" if never else "Periodic work"
        return super().changelist_view(request, {**(extra_context or {}), "title": title})

    @admin.display(description="interval")
    def every(self, lease: Lease) -> str:
        job = periodic_jobs.get(lease.name)
        return f"{job.every:g} s" if job else ""

    @admin.display(description="state")
    def state(self, lease: Lease) -> SafeString:
        """Return the state of the job in its colour."""
        job = _work(lease)
        tone, word = "ok", "done in time"
        if job is None:
            tone, word = "off", "removed"
        elif job.overdue:
            tone, word = "bad", "overdue"
        elif job.running_since is not None:
            tone, word = "busy", "is being done"
        elif job.last_error:
            tone, word = "bad", "failed"
        return format_html('<span class="status {}">{}</span>', tone, word)

    took = column(
        "took",
        lambda lease: "" if lease.last_seconds is None else f"{lease.last_seconds:.3f} s",
        ordering="last_seconds",
    )


def _work(lease: Lease) -> Periodic | None:
    job = periodic_jobs.get(lease.name)
    return periodic(job.name, job.every, lease, timezone.now()) if job else None
