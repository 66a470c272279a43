"""Notifications that the webhook has not accepted, with their errors and retries."""

import json
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.ops.admin.base import Readable, confirmed
from portal.ops.admin.columns import column, tag
from provisioning.notifications import services
from provisioning.notifications.models import Delivery


class StateFilter(admin.SimpleListFilter):
    """Filter by state: waiting, failed with retries, or given up."""

    title = "state"
    parameter_name = "state"
    _conditions = {
        "waiting": Q(failed_at=None, tries=0),
        "tried": Q(failed_at=None, tries__gt=0),
        "failed": Q(failed_at__isnull=False),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("waiting", "waits"), ("tried", "to be retried"), ("failed", "given up")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        condition = self._conditions.get(self.value() or "")
        return queryset.filter(condition) if condition is not None else queryset


def _state(delivery: Delivery) -> SafeString:
    if delivery.failed_at is not None:
        return tag("bad", "given up")
    return tag("bad", "to be retried") if delivery.tries else tag("busy", "waits")


@admin.register(Delivery)
class DeliveryAdmin(Readable):
    rules = {
        "view": "novella:deliveries",
        "send_again": "novella:deliveries:send_again",
        "drop": "novella:deliveries:drop",
    }
    list_display = ("event_type", "subject", "state", "tries", "last_error", "created_at", "due_at")
    list_filter = (StateFilter, "event_type")
    search_fields = ("subject",)
    ordering = ("id",)
    actions = ("send_again", "drop")
    fields = (
        "event_type", "message_id", "subject", "state", "tries", "last_error", "created_at", "first_failed_at",
        "due_at", "failed_at", "text",
    )  # fmt: skip
    readonly_fields = ("state", "message_id", "text")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        title = "Notifications that the webhook has not accepted yet"
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    text = column(
        "the notification",
        lambda delivery: format_html('<pre class="lines">{}</pre>', json.dumps(json.loads(delivery.body), indent=2)),
    )

    state = column("state", _state)

    @admin.action(description="Send again now")
    def send_again(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        """Retry notifications immediately, including those that were given up."""
        again = services.send_again(list(queryset.values_list("pk", flat=True)))
        messages.success(request, f"Notifications to be sent again: {again}.")

    @admin.action(description="Drop: do not send")
    def drop(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> HttpResponse | None:
        """Drop notifications after confirmation."""
        question = confirmed(self, request, queryset, "drop", "Drop these notifications without sending them?")
        if question is None:
            dropped = services.drop(list(queryset.values_list("pk", flat=True)))
            messages.success(request, f"Notifications dropped: {dropped}.")
        return question
