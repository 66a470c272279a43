"""Deliveries of networks, routers, floating IPs and security groups to hosts, with their results."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.utils.safestring import SafeString

from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP
from portal.ops.admin.base import Readable, row_action
from portal.ops.admin.columns import by_id, column, tag
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


def _subjects(deliveries: Sequence[Delivery]) -> dict[Any, Model | str]:
    """Return delivery → its record, or the id of a record that was deleted."""
    result: dict[Any, Model | str] = {row.pk: str(row.subject_id) for row in deliveries}
    for kind, model in SUBJECTS.items():
        ids = {row.pk: row.subject_id for row in deliveries if row.kind == kind}
        subjects = model._default_manager.in_bulk(set(ids.values()))
        result |= {row: subjects[subject] for row, subject in ids.items() if subject in subjects}
    return result


def _state(row: Delivery) -> SafeString:
    """Render the state of the delivery, with its error."""
    if row.error:
        return tag("bad", "failed", row.error)
    if row.command_id is not None:
        return tag("busy", "in delivery")
    return tag("ok", "done") if row.digest else tag("off", "forgotten")


@admin.register(Delivery)
class DeliveryAdmin(Readable):
    """One row for each host and each record that it needs."""

    rules = {"view": "novella:get_networks:all_projects", "tell_again": "os_compute_api:os-services:update"}
    list_display = ("subject", "kind", "host", "state", "generation", "tries", "changed_at")
    list_display_links = ("kind",)
    search_help_text = "Id of the record or of the host, or a part of the error"
    list_filter = ("kind",)
    ordering = ("-changed_at", "-id")
    search_fields = ("subject_id__startswith", "host_id__startswith", "error")
    actions = ("tell_again",)

    subject = column("of", read=_subjects, ordering="subject_id", link=True)
    host = column("host", read=by_id(Host.objects.in_bulk, "host_id"), ordering="host_id", link=True)
    state = column("state", _state)

    @row_action("Send to the host again", "Hosts to be notified again")
    def tell_again(self, context: RequestContext, row: Delivery) -> None:
        sending.resend(row)
