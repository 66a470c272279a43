"""The scheduler's decisions for all projects' instances: read-only, with the hosts."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from portal.ops.admin.base import Readable
from portal.ops.admin.columns import column, tag
from provisioning.common.context import system_context
from provisioning.compute import selectors
from provisioning.compute.models import SchedulingDecision


def _hosts(decision: SchedulingDecision) -> str:
    """Return the numbers of hosts before and after filtering."""
    filters = decision.filters
    return f"{filters[0]['before']} → {filters[-1]['after']}" if filters else "0 → 0"


def _drawn(decision: SchedulingDecision) -> SafeString:
    """Render it as on the instance's page, with the hosts."""
    known = selectors.decisions_for(system_context(), decision.instance_id)
    this = next(each for each in known if (each.action, each.attempt) == (decision.action, decision.attempt))
    return render_to_string("explained/decision.html", {"decision": this, "open": True})


@admin.register(SchedulingDecision)
class SchedulingDecisionAdmin(Readable):
    """The decisions, newest first."""

    rules = {"view": "os_compute_api:os-extended-server-attributes"}
    list_display = ("instance", "action", "attempt", "outcome", "hosts", "driver", "took", "created_at")
    list_filter = ("action", "driver", "created_at")
    list_select_related = ("instance",)
    search_fields = ("instance__id__startswith", "instance__name", "host_name")
    search_help_text = "Id or name of an instance, or a host"
    ordering = ("-created_at", "-id")
    fields = ("server", "created_at", "drawn", "asked", "took", "reading")
    readonly_fields = ("server", "drawn", "took", "reading")

    class Media:
        css = {"all": ("css/decisions.css",)}

    outcome = column("host", lambda decision: decision.host_name or tag("bad", "No host"), ordering="host_name")
    hosts = column("hosts", _hosts)
    took = column("seconds", lambda decision: f"{decision.seconds:.3f}", ordering="seconds")
    reading = column("of them reading the hosts", lambda decision: f"{decision.read_seconds:.3f}")

    server = column("instance", "instance", link=True)
    drawn = column("decision", _drawn)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return super().changelist_view(request, {"title": "Scheduling decisions", **(extra_context or {})})
