"""The scheduler's decisions for all projects' instances: read-only, with the hosts."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.ops.admin.base import Readable, column
from provisioning.common.context import system_context
from provisioning.compute import selectors
from provisioning.compute.models import SchedulingDecision


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

    @admin.display(description="host", ordering="host_name")
    def outcome(self, decision: SchedulingDecision) -> SafeString:
        """Return the name of the chosen host."""
        if decision.host_name:
            return format_html("{}", decision.host_name)
        return format_html('<span class="status bad">{}</span>', "No host")

    @admin.display(description="hosts")
    def hosts(self, decision: SchedulingDecision) -> str:
        """Return the numbers of hosts before and after filtering."""
        filters = decision.filters
        return f"{filters[0]['before']} → {filters[-1]['after']}" if filters else "0 → 0"

    took = column("seconds", lambda decision: f"{decision.seconds:.3f}", ordering="seconds")
    reading = column("of them reading the hosts", lambda decision: f"{decision.read_seconds:.3f}")

    @admin.display(description="instance")
    def server(self, decision: SchedulingDecision) -> SafeString:
        address = reverse("admin:compute_instance_change", args=[decision.instance_id])
        return format_html('<a href="{}">{}</a>', address, decision.instance.name)

    @admin.display(description="decision")
    def drawn(self, decision: SchedulingDecision) -> SafeString:
        """Render it as on the instance's page, with the hosts."""
        known = selectors.decisions_for(system_context(), decision.instance_id)
        this = next(each for each in known if (each.action, each.attempt) == (decision.action, decision.attempt))
        return render_to_string("explained/decision.html", {"decision": this, "open": True})

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return super().changelist_view(request, {"title": "Scheduling decisions", **(extra_context or {})})
