"""Periodic jobs: their last run and its result."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from portal.ops.admin.base import Readable
from portal.ops.admin.columns import column, tag
from provisioning.jobs.models import Lease
from provisioning.jobs.registry import periodic_jobs
from provisioning.jobs.selectors import periodic, periodic_work


def _interval(lease: Lease) -> str:
    job = periodic_jobs.get(lease.name)
    return f"{job.every:g} s" if job else ""


def _state(lease: Lease) -> SafeString:
    declared = periodic_jobs.get(lease.name)
    if declared is None:
        return tag("off", "removed")
    job = periodic(declared.name, declared.every, lease, timezone.now())
    if job.overdue:
        return tag("bad", "overdue")
    if job.running_since is not None:
        return tag("busy", "is being done")
    return tag("bad", "failed") if job.last_error else tag("ok", "done in time")


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
        title = f"Periodic jobs that have never run: {', '.join(never)}" if never else "Periodic work"
        return super().changelist_view(request, {**(extra_context or {}), "title": title})

    every = column("interval", _interval)
    state = column("state", _state)
    took = column(
        "took",
        lambda lease: "" if lease.last_seconds is None else f"{lease.last_seconds:.3f} s",
        ordering="last_seconds",
    )
