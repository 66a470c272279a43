"""One action on several instances: the confirmation, and the results for each instance."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from portal.dashboard.instances.begin import action_named, begin, kept_to_be_restored
from portal.dashboard.instances.bulk_actions import BULK, MOST
from portal.dashboard.instances.listing import INSTANCES
from portal.dashboard.instances.rows import can
from portal.dashboard.instances.views import InstancePage
from portal.dashboard.lists import selection
from portal.dashboard.names import bdi
from portal.dashboard.plain import plain
from portal.dashboard.wording import duration
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, NovellaError
from provisioning.common.ids import read_id
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance

NOT_HERE = "It was deleted, or is not in this project."


class InstancesBulk(InstancePage):
    """An action on the selected instances of the list (``lists.selection``).

    The page's script sends the form in parts in the background, and each part gets a JSON response. Without scripts,
    one request processes all instances.
    """

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Find the action by its name in the address. The page is checked by the action's policy rule."""
        self.action, self.button = action_named(kwargs["button"])
        if self.button.name not in BULK:
            raise Http404
        self.rule = self.action.rule
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, button: str) -> HttpResponse:
        """Ask for confirmation, with the number and names of the instances."""
        instances = picked(self.context, [str(each) for each in selection.resolve(request, INSTANCES)])
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
                "force": [item.id for item in instances if self._deletes and kept_to_be_restored(item)],
                "in_parts": label,
                "asked": timezone.now().isoformat(),
            }
        )

    def post(self, request: HttpRequest, button: str) -> HttpResponse:
        """Start the action on each instance; a refusal does not stop the others."""
        done, refused = self._begin(request.POST.getlist("ids"))
        if request.accepts("text/html"):
            for name, message in refused:
                messages.error(request, f"{bdi(name)}: {message}")
            said = f"{self.button.label}: {bdi(done[0]) if len(done) == 1 else f'{len(done)} instances'}."
            return self.go("dashboard:instances", said=said if done else "")
        return JsonResponse({"done": done, "refused": [{"name": name, "message": why} for name, why in refused]})

    def refused(self, error: NovellaError) -> HttpResponse:
        """Return the error to the script as JSON; after a rate limit, the script retries."""
        if self.request.accepts("text/html"):
            return super().refused(error)
        after = {"Retry-After": str(wait)} if (wait := getattr(error, "retry_after", None)) else {}
        return JsonResponse({"message": plain(error.message)}, status=429 if after else 409, headers=after)

    @property
    def _deletes(self) -> bool:
        return self.action.key == "delete"

    def _begin(self, ids: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the names of the instances on which the action was started, and the names of all others with the
        reason of the refusal.
        """
        done, refused = [], []
        here = str(self.context.project_id)
        elsewhere = self.request.POST.get("project", here) != here
        instances = [] if elsewhere else picked(self.context, ids)
        known = {str(instance.id) for instance in instances}
        for missing in (text for text in ids[:MOST] if text not in known):
            if self._deletes and self._again and not elsewhere:
                done.append(missing)
            else:
                refused.append((missing[:36], NOT_HERE))
        for instance in instances:
            why = "" if self._was_begun(instance) else self._begin_one(instance)
            if why and not self._was_begun(instance):
                refused.append((instance.name, why))
            else:
                done.append(instance.name)
        return done, refused

    def _begin_one(self, instance: Instance) -> str:
        """Start the action on one instance; return the reason of a refusal, or an empty text."""
        if not self._deletes and not can(instance, self.action):
            return f"{self.action.why_not(instance).capitalize()}."
        try:
            begin(self.context, self.action, instance, force=str(instance.id) in self.request.POST.getlist("force"))
        except NotFoundError:
            return ""  # the instance was deleted concurrently
        except NovellaError as error:
            return plain(error.message)
        return ""

    @property
    def _again(self) -> datetime | None:
        """The time of the confirmation, if the script retries a request whose response it did not receive."""
        try:
            asked = parse_datetime(self.request.POST.get("again", ""))
        except ValueError:
            return None
        return asked if asked and timezone.is_aware(asked) else None

    def _was_begun(self, instance: Instance) -> bool:
        """Whether the script repeats a request that has already started the action on the instance since the
        confirmation.
        """
        if self._again is None:
            return False
        since = compute.actions_for(self.context, instance.id, limit=1)
        return any(
            (each.action, each.user_id) == (self.action.record, self.context.user_id) and each.started_at >= self._again
            for each in since
        )

    def _consequence(self, instances: Sequence[Instance]) -> str:
        """Describe the consequence, and how many instances cannot start the action now."""
        if not self._deletes:
            cannot = sum(not can(each, self.action) for each in instances)
            left = f" {cannot} of them do not allow it in their current state and are not changed." if cannot else ""
            return self.button.consequence + left
        kept = settings.RECLAIM_INSTANCE_INTERVAL
        if kept and not any(map(kept_to_be_restored, instances)):
            return f"The guests are stopped. They can be restored for {duration(kept)}."
        return "The guests are stopped and their disks are deleted. This cannot be undone."


def picked(context: RequestContext, ids: Sequence[str]) -> list[Instance]:
    """Return the project's instances with these ids, including soft-deleted ones."""
    known = [found for found in map(read_id, ids[:MOST]) if found]
    if not known:
        return []
    kept = compute.instances_for(context, ids=known, status="SOFT_DELETED")
    return [*compute.instances_for(context, ids=known), *kept]
