"""Instances of all projects, read-only, with actions that are safe in every state."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.common.statuses import task_word
from portal.ops.admin.base import Readable, TabularInline, row_action
from portal.ops.admin.columns import PROJECT, by_id, column, rows_link, status
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.delete import Delete, delete
from provisioning.compute.actions.power import Start, Stop
from provisioning.compute.launch import retry
from provisioning.compute.models import Instance, InstanceAction, InstanceFault, SchedulingDecision
from provisioning.compute.states import VmState
from provisioning.identity.selectors.lookups import users_by_id

if TYPE_CHECKING:
    ActionFormSet = BaseInlineFormSet[InstanceAction, Instance, Any]
else:
    ActionFormSet = BaseInlineFormSet

MOST_SHOWN = 100
"""Maximum number of actions on an instance's page, newest first."""


class FaultInline(TabularInline):
    """Faults of the instance, with the details for operators."""

    model = InstanceFault
    fields = readonly_fields = ("created_at", "message", "host_name", "details")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False


class NewestActions(ActionFormSet):
    """The newest actions with their steps and users, read with a constant number of queries."""

    _queryset: Any

    def get_queryset(self) -> Any:
        if not hasattr(self, "_queryset"):
            rows: Any = super().get_queryset().prefetch_related("events")[:MOST_SHOWN]
            users = users_by_id({row.user_id for row in rows if row.user_id})
            for row in rows:
                row.shown_user = users.get(row.user_id)
            self._queryset = rows
        return self._queryset


def _user(action: Any) -> str:
    """Return the user, who may have been deleted; actions without a user are Novella's."""
    return "Novella" if action.user_id is None else str(action.shown_user or action.user_id)


def _seconds(timed: Any, unfinished: str) -> str:
    """Format the duration of an action or of its step."""
    return (
        unfinished if timed.finished_at is None else f"{(timed.finished_at - timed.started_at).total_seconds():.2f} s"
    )


def _steps(action: InstanceAction) -> SafeString:
    """List the steps with their seconds, in order of their start."""
    events = sorted(action.events.all(), key=lambda event: (event.started_at, event.id))
    rows = ((event.name.replace("_", " "), _seconds(event, "running"), event.message) for event in events)
    return format_html_join(SafeString("<br>"), "{} {} {}", rows)


class ActionInline(TabularInline):
    """Actions on the instance and their users. They are deleted with the record of the instance."""

    model = InstanceAction
    formset = NewestActions
    verbose_name_plural = f"Activity, the newest {MOST_SHOWN}"
    fields = readonly_fields = ("started_at", "what", "by", "took", "steps", "message", "request_id")
    ordering = ("-started_at", "-id")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        """Return True: every operator who may see the instance may see its actions."""
        return True

    what = column("action", lambda action: action.action.replace("_", " "))
    by = column("by", _user)
    took = column("took", lambda action: _seconds(action, "not finished"))
    steps = column("steps", _steps)


def _not_deleted(rows: QuerySet[Instance]) -> QuerySet[Instance]:
    return rows.exclude(vm_state=VmState.DELETED)


def _deleter(instance: Instance) -> str:
    """Return the user of its last deletion."""
    last = instance.actions.filter(action=Delete.record).order_by("started_at", "id").last()
    if instance.vm_state != VmState.DELETED or last is None:
        return ""
    return str(users_by_id([last.user_id]).get(last.user_id) or last.user_id) if last.user_id else "Novella"


def _page(instance: Instance) -> SafeString:
    """Return a link to the timeline and the console log; a deleted instance has only its activity, on this page."""
    if instance.vm_state == VmState.DELETED:
        return format_html('<a href="#actions-group">{}</a>', "Activity")
    return format_html(
        '<a href="{}">{}</a>', reverse("dashboard:instance", args=[instance.id]), "Timeline and console log"
    )


def _decisions(instance: Instance) -> SafeString:
    """Return a link to the scheduling decisions."""
    many = instance.decisions.count()
    words = "1 scheduling decision" if many == 1 else f"{many} scheduling decisions"
    return rows_link(SchedulingDecision, "instance__id__exact", instance.id, words)


@admin.register(Instance)
class InstanceAdmin(Readable):
    rules = {
        "view": "os_compute_api:servers:detail:get_all_tenants",
        "delete_instances": "os_compute_api:servers:delete",
        "stop_instances": "os_compute_api:servers:stop",
        "start_instances": "os_compute_api:servers:start",
        "give_up": "novella:servers:give_up",
    }
    list_display = ("name", "state", "task", "project", "host", "size", "created_at")
    list_filter = ("vm_state", "task_state", "host")
    list_select_related = ("host",)
    search_fields = ("name", "hostname", "id__startswith")
    ordering = ("-created_at",)
    actions = ("delete_instances", "stop_instances", "start_instances", "give_up")
    inlines = (FaultInline, ActionInline)
    fields = (
        "name", "page", "decisions", "id", "state", "vm_state", "task_state", "power_state", "task_deadline",
        "attempt", "project", "owner", "host", "size", "image_name", "image_id", "key_name", "hostname",
        "availability_zone", "reservation_id", "request_id", "locked", "metadata", "created_at", "launched_at",
        "updated_at", "deleted_at", "deleted_by",
    )  # fmt: skip
    readonly_fields = ("page", "decisions", "state", "project", "owner", "size", "deleted_by")

    state = column("status", status)
    task = column("task", lambda instance: task_word(instance.task_state) or instance.task_state, ordering="task_state")
    project = PROJECT
    owner = column("launched by", read=by_id(users_by_id, "user_id"), link=True)
    deleted_by = column("deleted by", _deleter)
    size = column("size", lambda instance: str(instance.flavor["name"]))
    page = column("page", _page)
    decisions = column("placement", _decisions)

    def get_view_on_site_url(self, obj: Any = None) -> str | None:
        """Return no page for a deleted instance, of which only the record is left."""
        return None if obj is None or obj.vm_state == VmState.DELETED else super().get_view_on_site_url(obj)

    @row_action("Delete", "Instances being deleted", question="Delete these instances?", among=_not_deleted)
    def delete_instances(self, context: RequestContext, instance: Instance) -> None:
        delete(context, instance.id)

    @row_action("Stop", "Instances being stopped", question="Stop these instances?")
    def stop_instances(self, context: RequestContext, instance: Instance) -> None:
        Stop.begin(context, instance.id)

    @row_action("Start", "Instances being started")
    def start_instances(self, context: RequestContext, instance: Instance) -> None:
        Start.begin(context, instance.id)

    @row_action(
        "Abort the launch: clean up and set to error",
        "Launches ended",
        question="End the launch of these instances?",
    )
    def give_up(self, context: RequestContext, instance: Instance) -> None:
        """Abort a running launch; resources and addresses are released."""
        with transaction.atomic():
            if not retry.fail(instance, "An operator ended the launch.", details=f"by {context.user_name}"):
                raise ConflictError("It is not being launched.")
