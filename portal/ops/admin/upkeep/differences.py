"""Guests that are newer than their records, and interfaces that differ between a guest and its record; operators choose
how to resolve them.
"""

from django.contrib import admin

from portal.ops.admin.base import Readable, row_action
from provisioning.common.context import RequestContext
from provisioning.compute.models import InterfaceDifference, NewerGuest
from provisioning.compute.upkeep import adoption, kept_interfaces


@admin.register(InterfaceDifference)
class InterfaceDifferenceAdmin(Readable):
    """One row for each interface of an instance."""

    rules = dict.fromkeys(("view", "add_to_record", "take_out", "plug_in", "acknowledge"), adoption.RULE)
    list_display = ("instance", "host", "mac_address", "port_id", "kind", "reason", "first_seen_at")
    list_filter = ("kind", "host")
    list_select_related = ("instance", "host")
    search_fields = ("instance__id__startswith", "instance__name", "port_id__startswith", "mac_address")
    search_help_text = "Id or name of an instance, port, or MAC address"
    ordering = ("kind", "-id")
    actions = ("add_to_record", "take_out", "plug_in", "acknowledge")

    @row_action("Add the guest's interface to the server's record", "Interfaces restored")
    def add_to_record(self, context: RequestContext, row: InterfaceDifference) -> None:
        kept_interfaces.add_to_record(context, row)

    @row_action(
        "Detach the interface from the guest",
        "Interfaces to be detached",
        question="Detach these interfaces from their guests? Their connections end.",
    )
    def take_out(self, context: RequestContext, row: InterfaceDifference) -> None:
        kept_interfaces.unplug(context, row)

    @row_action("Plug the interface of the record into the guest", "Interfaces to be plugged in")
    def plug_in(self, context: RequestContext, row: InterfaceDifference) -> None:
        kept_interfaces.plug_in(context, row)

    @row_action("Acknowledge", "Acknowledged")
    def acknowledge(self, context: RequestContext, row: InterfaceDifference) -> None:
        kept_interfaces.acknowledge(context, row)


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
        "Records updated from their guest",
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
