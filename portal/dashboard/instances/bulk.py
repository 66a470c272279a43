"""One action on several instances: the question, and its answer instance by instance."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse

from portal.dashboard.instances.begin import action_named, begin
from portal.dashboard.instances.bulk_actions import BULK, MOST
from portal.dashboard.instances.listing import Filter, all_matching
from portal.dashboard.instances.rows import can
from portal.dashboard.instances.views import InstancePage
from portal.dashboard.names import bdi
from portal.dashboard.plain import plain
from portal.dashboard.wording import duration
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, NovellaError
from provisioning.common.ids import read_id
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState


class InstancesBulk(InstancePage):
    """An action on the picked instances, or on all that match the list's filter (``?every=1``).

    The script of the page sends the answer in parts, each answered in JSON, while people go on; without scripts all
    are done in one request.
    """

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Find the action by the word in the address; its policy rule is the page's."""
        self.action, self.button = action_named(kwargs["button"])
        if self.button.name not in BULK:
            raise Http404
        self.rule = self.action.rule
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, button: str) -> HttpResponse:
        """Ask, with the number and the names of all."""
        every = request.GET.get("every") == "1"
        if every:
            instances = all_matching(self.context, Filter.of(request.GET), MOST)
        else:
            instances = picked(self.context, request.GET.getlist("ids"))
        if not instances:
            return self.go("dashboard:instances", said="Nothing was selected.", level=messages.INFO)
        count, label = len(instances), self.button.label
        what = bdi(instances[0].name) if count == 1 else f"{count} instances"
        return self.ask(
            {
                "title": f"{label} {what}?",
                "text": self._consequence(instances),
                "action": reverse("dashboard:instances_bulk", args=[button]),
                "label": label if count == 1 else f"{label} {what}",
                "danger": self.button.danger,
                "names": [item.name for item in instances],
                "ids": [item.id for item in instances],
                "back": reverse("dashboard:instances"),
                "in_parts": label,
            }
        )

    def post(self, request: HttpRequest, button: str) -> HttpResponse:
        """Begin it on each; one that refuses does not keep the others."""
        done, refused = self._begin(picked(self.context, request.POST.getlist("ids")))
        if request.accepts("text/html"):
            for name, message in refused:
                messages.error(request, f"{bdi(name)}: {message}")
            said = f"{self.button.label}: {bdi(done[0]) if len(done) == 1 else f'{len(done)} instances'}."
            return self.go("dashboard:instances", said=said if done else "")
        return JsonResponse({"done": done, "refused": [{"name": name, "message": why} for name, why in refused]})

    def refused(self, error: NovellaError) -> HttpResponse:
        """Say it to the script, too: it tries again when it was too quick."""
        if self.request.accepts("text/html"):
            return super().refused(error)
        after = {"Retry-After": str(wait)} if (wait := getattr(error, "retry_after", None)) else {}
        return JsonResponse({"message": plain(error.message)}, status=429 if after else 409, headers=after)

    def _begin(self, instances: Sequence[Instance]) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the names of those that it was begun on, and the others with the reason."""
        done, refused = [], []
        for instance in instances:
            why = self._begin_one(instance)
            if why and not self._was_begun(instance):
                refused.append((instance.name, why))
            else:
                done.append(instance.name)
        return done, refused

    def _begin_one(self, instance: Instance) -> str:
        """Begin it on one; return why that is refused, empty when it is not."""
        if self.action.key != "delete" and not can(instance, self.action):
            return f"{self.action.why_not(instance).capitalize()}."
        try:
            begin(self.context, self.action, instance)
        except NotFoundError:
            return ""  # somebody else has deleted it
        except NovellaError as error:
            return plain(error.message)
        return ""

    def _was_begun(self, instance: Instance) -> bool:
        """Whether the script asks again, since it did not hear the answer, for what it has begun already."""
        if self.request.POST.get("again") != "1":
            return False
        newest = compute.actions_for(self.context, instance.id, limit=1)
        return bool(newest) and newest[0].action == self.action.record and newest[0].user_id == self.context.user_id

    def _consequence(self, instances: Sequence[Instance]) -> str:
        """Say what follows, and how many do not allow it now."""
        if self.action.key != "delete":
            cannot = sum(not can(each, self.action) for each in instances)
            left = f" {cannot} of them do not allow it now and are left as they are." if cannot else ""
            return self.button.consequence + left
        kept = settings.RECLAIM_INSTANCE_INTERVAL
        if kept and all(item.vm_state != VmState.SOFT_DELETED for item in instances):
            return f"The guests are stopped. They can be restored for {duration(kept)}."
        return "The guests are stopped and their disks are deleted. This cannot be undone."


def picked(context: RequestContext, ids: Sequence[str]) -> list[Instance]:
    """Return the project's instances of these ids, those too that are only kept to be restored."""
    known = [found for found in map(read_id, ids[:MOST]) if found]
    if not known:
        return []
    kept = compute.instances_for(context, ids=known, status="SOFT_DELETED")
    return [*compute.instances_for(context, ids=known), *kept]
