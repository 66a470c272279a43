"""Deliveries of networks, routers, floating IPs and security groups to hosts, with their results."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.utils.html import format_html
from django.utils.safestring import SafeString

from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP
from portal.ops.admin.base import Readable, column, link_to, row_action
from provisioning.common.context import RequestContext
from provisioning.hosts.models import Host
from provisioning.network.delivery import sending
from provisioning.network.models import Delivery, FloatingIP, Network, Router, SecurityGroup

SUBJECTS: dict[str, type[Model]] = {
    NETWORK: Network,
    ROUTER: Router,
    FLOATING_IP: FloatingIP,
    SECURITY_GROUP: SecurityGroup,
}


@admin.register(Delivery)
class DeliveryAdmin(Readable):
    """One row for each host and each record that it needs."""

    rules = {"view": "novella:get_networks:all_projects", "tell_again": "os_compute_api:os-services:update"}
    list_display = ("subject", "kind", "page", "host", "state", "generation", "tries", "changed_at")
    search_help_text = "Id of the record or of the host, or a part of the error"
    list_filter = ("kind",)
    ordering = ("-changed_at", "-id")
    search_fields = ("subject_id__startswith", "host_id__startswith", "error")
    actions = ("tell_again",)

    def get_changelist_instance(self, request: Any) -> Any:
        changes = super().get_changelist_instance(request)
        rows = list(changes.result_list)
        found = Host.objects.in_bulk({row.host_id for row in rows})
        for row in rows:
            row.shown_host = found.get(row.host_id)
            row.shown_subject = None
        for kind, model in SUBJECTS.items():
            of_kind = [row for row in rows if row.kind == kind]
            subjects = model._default_manager.in_bulk({row.subject_id for row in of_kind})
            for row in of_kind:
                row.shown_subject = subjects.get(row.subject_id)
        return changes

    subject = column(
        "of", lambda row: str(getattr(row, "shown_subject", None) or row.subject_id), ordering="subject_id"
    )
    page = column("page", lambda row: link_to(getattr(row, "shown_subject", None), "open"))

    host = column("host", lambda row: str(getattr(row, "shown_host", None) or row.host_id), ordering="host_id")

    @admin.display(description="state")
    def state(self, row: Delivery) -> SafeString:
        """Return the state of the delivery, with its error."""
        if row.error:
            tone, word = "bad", "failed"
        elif row.command_id is not None:
            tone, word = "busy", "in delivery"
        else:
            tone, word = ("ok", "done") if row.digest else ("off", "forgotten")
        return format_html('<span class="status {}" title="{}">{}</span>', tone, row.error, word)

    @row_action("Send to the host again", "Hosts to be notified again")
    def tell_again(self, context: RequestContext, row: Delivery) -> None:
        sending.resend(row)
