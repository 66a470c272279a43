"""Guests that are newer than their records: operators choose to update the record, or to delete the guest."""

from django.contrib import admin

from portal.ops.admin.base import Readable, row_action
from provisioning.common.context import RequestContext
from provisioning.compute.models import NewerGuest
from provisioning.compute.upkeep import adoption


@admin.register(NewerGuest)
class NewerGuestAdmin(Readable):
    """One row for each server and host, unacknowledged ones first."""

    rules = dict.fromkeys(("view", "adopt", "discard", "acknowledge"), adoption.RULE)
    list_display = (
        "instance", "host", "attempt", "record_attempt", "record_state", "record_host", "outcome", "last_seen_at",
        "acknowledged_at",
    )  # fmt: skip
    list_filter = ("outcome", "host")
    list_select_related = ("instance", "host")
    search_fields = ("instance__id__startswith", "instance__name")
    search_help_text = "Id or name of an instance"
    ordering = ("acknowledged_at", "-id")
    actions = ("adopt", "discard", "acknowledge")

    @row_action(
        "Update the record from the guest",
        "Records that follow their guest",
        question="Update the records from these guests? The remains of the servers on the former hosts are removed.",
    )
    def adopt(self, context: RequestContext, row: NewerGuest) -> None:
        adoption.adopt(context, row)

    @row_action(
        "Remove the guest with its disk",
        "Guests to be removed",
        question="Remove these guests with their disks? This cannot be undone.",
    )
    def discard(self, context: RequestContext, row: NewerGuest) -> None:
        adoption.discard(context, row)

    @row_action("Acknowledge", "Acknowledged")
    def acknowledge(self, context: RequestContext, row: NewerGuest) -> None:
        adoption.acknowledge(context, row)
