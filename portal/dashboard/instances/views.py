"""Instances: the list, the detail page, and the actions."""

import uuid
from collections.abc import Sequence
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.pages import PageRequest
from portal.dashboard.frame.things import Thing
from portal.dashboard.instances.actions.begin import (
    action_named,
    begin,
    kept_to_be_restored,
    masters_locks,
    refusal,
    volumes_left,
)
from portal.dashboard.instances.detail.contents import head_for
from portal.dashboard.instances.detail.menu import menu_for
from portal.dashboard.instances.detail.tabs import TABS, Tab, tabs_for
from portal.dashboard.instances.lists.listing import INSTANCES
from portal.dashboard.instances.page import InstancePage
from portal.dashboard.lists.views import ListPage
from portal.dashboard.words.names import bdi
from portal.dashboard.words.wording import duration
from provisioning.compute import selectors as compute
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.ways import Button
from provisioning.compute.disks import block_devices
from provisioning.compute.models import Instance
from provisioning.identity import policy


class InstanceList(ListPage, InstancePage):
    """All instances of the project."""

    records = INSTANCES
    template = "dashboard/instances/list.html"


class InstanceTab(InstancePage):
    """A tab of an instance's page; ``/instances/<id>/`` is the overview."""

    rule = "os_compute_api:servers:show"
    tab: Tab = TABS[0]

    def get(self, request: HttpRequest, instance_id: uuid.UUID) -> HttpResponse:
        """Read the head and this tab only."""
        since = self.live_since()
        instance = compute.instance_for(self.context, instance_id)
        if not self.tab.seen_by(self.context, instance):
            policy.enforce(self.context, self.tab.rules[0])
        self.live_page = self.tab.live_page(instance)
        self.thing = Thing("instance", str(instance.id), instance.name)
        parts = {
            **head_for(self.context, instance),
            **self.tab.read(self.context, instance),
            "tab": self.tab,
            "show": request.GET.get("show", ""),
            "tabs": tabs_for(self.context, instance, self.tab),
        }
        return self.page("dashboard/instances/detail.html", {"live_since": since, **parts})


class InstanceActions(InstancePage):
    """The actions that an instance allows now: the menu of its row, or a page for browsers without scripts."""

    rule = "os_compute_api:servers:show"

    def get(self, request: HttpRequest, instance_id: uuid.UUID) -> HttpResponse:
        instance = compute.instance_for(self.context, instance_id)
        values = {"instance": instance, "menu": menu_for(self.context, instance)}
        if cast("PageRequest", request).htmx:
            return self.part("dashboard/instances/_menu_items.html", values)
        return self.page("dashboard/instances/actions.html", values)


class InstanceAction(InstancePage):
    """One action on one instance, after confirmation."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Find the action by its name in the address. The page is checked by the action's policy rule."""
        self.action, self.button = action_named(kwargs["button"])
        self.rule = self.action.rule
        self.instance_id = kwargs["instance_id"]
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, instance_id: uuid.UUID, button: str) -> HttpResponse:
        instance = compute.instance_for(self.context, instance_id)
        why = refusal(instance, self.action, masters=masters_locks(self.context))
        return self.ask(_question(instance, self.action, self.button, why))

    def post(self, request: HttpRequest, instance_id: uuid.UUID, button: str) -> HttpResponse:
        instance = compute.instance_for(self.context, instance_id)
        if self.asks_for_copies() and (calls := _calls(instance, self.action)):
            return self.show_copies(calls, self.button.question.format(name=bdi(instance.name)), self.back())
        begin(self.context, self.action, instance, force=str(instance.id) in request.POST.getlist("force"))
        deleted = self.action.key == "delete"
        to = reverse("dashboard:instances") if deleted else reverse("dashboard:instance", args=[instance.id])
        return self.go(to, message=self.button.message.format(name=bdi(instance.name)))

    def back(self) -> str:
        """Return the page of the instance, on which errors are shown."""
        return reverse("dashboard:instance", args=[self.instance_id])

    def returns_to(self, path: str) -> bool:
        """Do not return to the page of a deleted instance."""
        return super().returns_to(path) and (self.action.key != "delete" or path == reverse(self.back_to))


def _question(instance: Instance, action: ServerAction[Any], button: Button, why: str) -> dict[str, Any]:
    """Return the context of the question; ``why`` is the reason why the action cannot begin now."""
    text = button.consequence
    if action.key == "delete" and settings.RECLAIM_INSTANCE_INTERVAL and not kept_to_be_restored(instance):
        text = f"The guest is stopped. It can be restored for {duration(settings.RECLAIM_INSTANCE_INTERVAL)}."
    elif action.key == "delete":
        text = _with_volumes(text, instance)
    return {
        "title": button.question.format(name=bdi(instance.name)),
        "text": why or text,
        "action": reverse("dashboard:instance_action", args=[instance.id, button.name]),
        "label": "" if why else button.label,
        "danger": button.danger,
        "back": reverse("dashboard:instance", args=[instance.id]),
        "copies": bool(_calls(instance, action)),
        "force": [instance.id] if action.key == "delete" and kept_to_be_restored(instance) else [],
    }


def _calls(instance: Instance, action: ServerAction[Any]) -> Sequence[Call]:
    """Return the call of an action; empty if no client offers the action."""
    server = {"server": str(instance.id)}
    if action.key == "delete":
        return [Call(copied.DELETE, server)]
    if action.key in {"reboot", "reboot_hard"}:
        hard = action.key == "reboot_hard"
        names = {"type": "HARD" if hard else "SOFT", "action": "reboot_hard" if hard else "reboot_soft"}
        return [Call(copied.REBOOT, {**server, "hard": hard, **names})]
    kind = copied.plain_action(action.key, action.api)
    return [Call(kind, server)] if kind is not None else []


def _with_volumes(text: str, instance: Instance) -> str:
    """Add which of a server's volumes are deleted with it to the consequence of its deletion."""
    devices = block_devices.volumes_of(instance.id)
    start = "The guest is stopped. This cannot be undone." if any(each.is_root for each in devices) else text
    return f"{start} {volumes_left(devices)}".rstrip()
