"""The list of instances, one in detail, and what is done to them."""

import uuid
from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.instances.detail import detail_for
from portal.dashboard.instances.listing import PAGE_SIZE, find, page_name, statuses
from portal.dashboard.instances.rows import buttons_of, can, rows_for
from portal.dashboard.names import bdi
from portal.dashboard.pages import Page, PageRequest
from portal.dashboard.wording import duration
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, NovellaError
from provisioning.common.ids import read_id
from provisioning.compute import selectors as compute
from provisioning.compute.actions.base import Button, ServerAction
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.registry import with_buttons
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState


def _delete(context: RequestContext, instance: Instance) -> None:
    """Delete an instance; one that is only kept to be restored is deleted for good."""
    delete(context, instance.id, force=instance.vm_state == VmState.SOFT_DELETED)


class InstancePage(Page):
    """Base of the pages of this panel."""

    section = "instances"
    back_to = "dashboard:instances"
    rule = "os_compute_api:servers:detail"


class InstanceList(InstancePage):
    """All instances of the project."""

    live_page = "instances"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the newest, narrowed by text and status."""
        since = self.live_since()
        text, status = request.GET.get("q", "").strip()[:255], request.GET.get("status", "")
        instances = find(self.context, text=text, status=status, marker=request.GET.get("marker"))
        self.live_page = page_name(text, status)
        more = str(instances[PAGE_SIZE - 1].id) if len(instances) > PAGE_SIZE else ""
        return self.page(
            "dashboard/instances/list.html",
            {
                "live_since": since,
                "rows": rows_for(self.context, instances[:PAGE_SIZE]),
                "filters": {"text": text, "status": status},
                "statuses": statuses(),
                "can_launch": self.allows("os_compute_api:servers:create"),
                "can_delete": self.allows("os_compute_api:servers:delete"),
                "more": more,
                "later": "marker" in request.GET,
            },
        )


class InstanceDetail(InstancePage):
    """One instance."""

    rule = "os_compute_api:servers:show"

    def get(self, request: HttpRequest, instance_id: uuid.UUID) -> HttpResponse:
        since = self.live_since()
        instance = compute.instance_for(self.context, instance_id)
        self.live_page = f"instance/{instance.id}"
        parts = detail_for(self.context, instance)
        return self.page("dashboard/instances/detail.html", {"live_since": since, **parts})


class InstanceActions(InstancePage):
    """The actions that one instance allows now: the menu of its row, or a page for browsers without scripts."""

    rule = "os_compute_api:servers:show"

    def get(self, request: HttpRequest, instance_id: uuid.UUID) -> HttpResponse:
        instance = compute.instance_for(self.context, instance_id)
        values = {"instance": instance, "buttons": buttons_of(self.context, instance)}
        if cast("PageRequest", request).htmx:
            return self.part("dashboard/instances/_menu_items.html", values)
        return self.page("dashboard/instances/actions.html", values)


class InstanceAction(InstancePage):
    """One action on one instance, after a question."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Find the action by the word in the address; its policy rule is the page's."""
        found = next(
            (action for action in with_buttons() if action.button and action.button.name == kwargs["button"]), None
        )
        if found is None or found.button is None:
            raise Http404
        self.action, self.button = found, found.button
        self.rule = found.rule
        self.instance_id = kwargs["instance_id"]
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, instance_id: uuid.UUID, button: str) -> HttpResponse:
        instance = compute.instance_for(self.context, instance_id)
        return self.ask(_question(instance, self.action, self.button))

    def post(self, request: HttpRequest, instance_id: uuid.UUID, button: str) -> HttpResponse:
        instance = compute.instance_for(self.context, instance_id)
        if self.action.key == "delete":
            _delete(self.context, instance)
            to = reverse("dashboard:instances")
        else:
            self.action.begin(self.context, instance.id)
            to = reverse("dashboard:instance", args=[instance.id])
        return self.go(to, said=self.button.said.format(name=bdi(instance.name)))

    def back(self) -> str:
        """Refusals are shown on the instance."""
        return reverse("dashboard:instance", args=[self.instance_id])


class InstancesDelete(InstancePage):
    """Several instances deleted together."""

    rule = "os_compute_api:servers:delete"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Ask, naming all of them."""
        instances = self._picked(request.GET.getlist("ids"))
        if not instances:
            return self.go("dashboard:instances", said="Nothing was selected.", level=messages.INFO)
        count = len(instances)
        text = "The guests are stopped and their disks are removed. This cannot be undone."
        if settings.RECLAIM_INSTANCE_INTERVAL and all(item.vm_state != VmState.SOFT_DELETED for item in instances):
            text = f"The guests are stopped. They can be restored for {duration(settings.RECLAIM_INSTANCE_INTERVAL)}."
        return self.ask(
            {
                "title": f"Delete {bdi(instances[0].name)}?" if count == 1 else f"Delete {count} instances?",
                "text": text,
                "action": reverse("dashboard:instances_delete"),
                "label": "Delete" if count == 1 else f"Delete {count} instances",
                "danger": True,
                "names": [item.name for item in instances],
                "ids": [item.id for item in instances],
                "back": reverse("dashboard:instances"),
            }
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Delete each; one that cannot be deleted does not keep the others."""
        instances = self._picked(request.POST.getlist("ids"))
        done: list[str] = []
        refusals = []
        for instance in instances:
            try:
                _delete(self.context, instance)
                done.append(instance.name)
            except NotFoundError:
                done.append(instance.name)  # somebody else was quicker
            except NovellaError as error:
                refusals.append(f"{bdi(instance.name)}: {error.message}")
        for refusal in refusals:
            messages.error(request, refusal)
        said = f"{done[0]} is being deleted." if len(done) == 1 else f"{len(done)} instances are being deleted."
        return self.go("dashboard:instances", said=said if done else "")

    def _picked(self, ids: list[str]) -> list[Instance]:
        known = [found for found in map(read_id, ids[:1000]) if found]
        if not known:
            return []
        kept = compute.instances_for(self.context, ids=known, status="SOFT_DELETED")
        return [*compute.instances_for(self.context, ids=known), *kept]


def _question(instance: Instance, action: ServerAction[Any], button: Button) -> dict[str, Any]:
    text = button.consequence
    if action.key == "delete" and settings.RECLAIM_INSTANCE_INTERVAL and instance.vm_state != VmState.SOFT_DELETED:
        text = f"The guest is stopped. It can be restored for {duration(settings.RECLAIM_INSTANCE_INTERVAL)}."
    if not can(instance, action):
        text = f"{bdi(instance.name)} does not allow this now: {action.why_not(instance)}. {text}"
    return {
        "title": button.question.format(name=bdi(instance.name)),
        "text": text,
        "action": reverse("dashboard:instance_action", args=[instance.id, button.name]),
        "label": button.label,
        "danger": button.danger,
        "back": reverse("dashboard:instance", args=[instance.id]),
    }
