"""Actions on many resources: the confirmation, the start, the results, and the tray."""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from portal.common.http import rate_limits
from portal.common.http.redirects import safe_next
from portal.dashboard.batches.forms import BatchForm
from portal.dashboard.batches.selection import selected
from portal.dashboard.frame.pages import Page, PageRequest
from portal.dashboard.frame.tray import list_of, results_of, row_of
from portal.dashboard.instances.actions.begin import volumes_left
from portal.dashboard.lists import selection
from portal.dashboard.words.names import bdi
from portal.dashboard.words.wording import duration
from provisioning.batches import selectors, services
from provisioning.batches.kinds import action_named
from provisioning.batches.kinds.declaration import BatchAction
from provisioning.common.errors import InvalidInputError, NovellaError
from provisioning.compute.disks import block_devices

NAMED = 10
"""Maximum number of names in a confirmation, and of resources of an action that needs no confirmation."""


class BulkAction(Page):
    """An action on the selected resources of a list: asks for confirmation, then starts a batch.

    The confirmed form contains the ids that were named and counted, not the query of the list. An action that can be
    undone starts without a confirmation if a script sends a few ids by ``POST`` and all of them allow it now.
    """

    counted = ""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Find the action in the address. The page is checked by the action's policy rule."""
        declared = action_named(kwargs["resources"], kwargs["bulk_action"])
        if declared is None:
            raise Http404
        self.kind, self.action = declared
        self.section, self.rule, self.back_to = self.kind.name, self.action.rule, list_of(self.kind.name)
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        ids = selected(request, self.kind)
        records = list(self.kind.find(self.context, ids)) if ids else []
        if not records:
            return self.go(self.back_to, message="Nothing was selected.", level=messages.INFO)
        place = {key: position for position, key in enumerate(ids)}
        records.sort(key=lambda record: place.get(self.kind.id_of(record), 0))
        kept = [self.kind.id_of(each) for each in records if self.action.deletes and self.kind.is_kept(each)]
        form = BatchForm(self.context, self.action, ids=[self.kind.id_of(each) for each in records], permanent=kept)
        return self._ask(form, self._question(records, permanent=bool(kept)))

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Start the batch, or ask for confirmation if the selection was sent by ``POST``."""
        if "confirmed" not in request.POST:
            return self._start_direct() or self.get(request)
        form = BatchForm(self.context, self.action, request.POST)
        if form.is_valid():
            typed = form.cleaned_data
            batch = services.BatchRequest(
                self.kind.name,
                self.action.name,
                typed["chosen"],
                form.arguments(),
                permanent=typed["permanent"] if self.action.deletes else (),
                key=typed["key"],
            )
            try:
                self._create(batch)
                return self.go(self.back_to)
            except InvalidInputError as error:
                form.refuse(error)
        records = list(self.kind.find(self.context, form.cleaned_data.get("chosen", ())))
        return self._ask(form, self._question(records, permanent=bool(form["permanent"].value())), status=422)

    def _start_direct(self) -> HttpResponse | None:
        """Start the batch and show the list again; None if the action must be confirmed."""
        request = cast("PageRequest", self.request)
        if not (request.htmx and self.action.undone_by) or request.POST.get("selection") == selection.ALL:
            return None
        ids = selected(request, self.kind)
        if not 0 < len(ids) <= NAMED or self.action.refusals(self.context, list(self.kind.find(self.context, ids))):
            return None
        self._create(services.BatchRequest(self.kind.name, self.action.name, ids))
        return reload_page(request, reverse(self.back_to))

    def _create(self, requested: services.BatchRequest) -> None:
        rate_limits.check(self.context, rate_limits.WRITES, len(requested.ids))
        services.create(self.context, requested)

    def _ask(self, form: BatchForm, question: Mapping[str, Any], *, status: int = 200) -> HttpResponse:
        htmx = cast("PageRequest", self.request).htmx
        shown = (htmx.current_url_abs_path or "") if htmx else safe_next(self.request, "")
        parts = {"form": form, "next": shown, **question}
        if htmx:
            return self.part("dashboard/batches/_question.html", parts, status=status)
        return self.page("dashboard/batches/question.html", parts, status=status)

    def _question(self, records: list[Any], *, permanent: bool) -> dict[str, Any]:
        """Return the texts; resources that do not allow the action now are named first, with the reasons."""
        refusals, label = self.action.refusals(self.context, records), self.action.label
        rows = [(self.kind.name_of(record), refusals.get(record.pk, "")) for record in records]
        rows.sort(key=lambda row: not row[1])
        possible = [record for record in records if record.pk not in refusals]
        able = len(possible)
        what = bdi(rows[0][0]) if len(rows) == 1 else self.kind.counted(len(rows))
        what = f"{able:,} of {what}" if 0 < able < len(rows) else what
        return {
            "title": f"{label}: {what}?" if self.action.argument else f"{label} {what}?",
            "consequence": " ".join(filter(None, self._consequences(possible, permanent=permanent))) if able else "",
            "unchanged": not_possible(list(refusals.values()), len(rows)),
            "able": able,
            "rows": rows[:NAMED] if len(rows) > 1 else [],
            "more": max(len(rows) - NAMED, 0),
            "action": self.request.path,
            "label": label,
            "danger": self.action.danger,
            "back": reverse(self.back_to),
        }

    def _consequences(self, records: list[Any], *, permanent: bool) -> Iterator[str]:
        yield consequence(self.action, self.kind.name, permanent=permanent)
        forever = permanent or not settings.RECLAIM_INSTANCE_INTERVAL
        if self.kind.name == "instances" and self.action.deletes and forever:
            yield volumes_left(block_devices.volumes_of_all([record.id for record in records]))


def not_possible(reasons: Sequence[str], among: int) -> str:
    """Return the sentence about the resources that an action cannot change; empty if it can change all."""
    if not reasons:
        return ""
    if among == 1:
        return f"It is not possible now: {reasons[0]}."
    counted = ", ".join(f"{many:,} {reason}" for reason, many in Counter(reasons).most_common())
    who = "None of them allows it now" if len(reasons) == among else f"{len(reasons):,} cannot be changed"
    return f"{who}: {counted}."


def consequence(action: BatchAction, kind: str, *, permanent: bool) -> str:
    """Return the consequence that the confirmation describes."""
    kept = settings.RECLAIM_INSTANCE_INTERVAL
    if kind == "instances" and action.deletes and kept and not permanent:
        return f"The guests are stopped. They can be restored for {duration(kept)}."
    return action.consequence


class BatchPage(Page):
    """The page of one batch, with the result for each of its resources."""

    live_page = "batch"

    def get(self, request: HttpRequest, batch_id: uuid.UUID) -> HttpResponse:
        since = self.live_since()
        batch = selectors.batch_for(self.context, batch_id)
        self.live_page = f"batch/{batch.id}"
        parts = {"row": row_of(batch), "results": results_of(batch)}
        return self.page("dashboard/batches/page.html", {"live_since": since, **parts})


def reload_page(request: HttpRequest, otherwise: str) -> HttpResponse:
    """Show the page again on which the request was sent, or ``otherwise`` if it is not a page of this portal."""
    htmx = cast("PageRequest", request).htmx
    if htmx:
        return HttpResponse(headers={"HX-Redirect": htmx.current_url_abs_path or otherwise})
    return HttpResponseRedirect(otherwise, status=303)


class BatchUndo(Page):
    """Starts the reverse action for the resources that an action has changed."""

    counted = ""
    back_to = "dashboard:batches"

    def post(self, request: HttpRequest, batch_id: uuid.UUID) -> HttpResponse:
        """Count the resources as changes, and show the page again, with the new action in the tray."""
        rate_limits.check(self.context, rate_limits.WRITES, selectors.batch_for(self.context, batch_id).done)
        batch = services.undo(self.context, batch_id)
        return reload_page(request, reverse(list_of(batch.kind)))


class BatchDismiss(Page):
    """Removes a finished action from the tray."""

    def post(self, request: HttpRequest, batch_id: uuid.UUID) -> HttpResponse:
        """Return to the page on which the tray was shown."""
        services.dismiss(self.context, batch_id)
        if cast("PageRequest", request).htmx:
            return HttpResponse(status=204)
        return self.go(safe_next(request, reverse("dashboard:overview")))

    def refused(self, error: NovellaError) -> HttpResponse:
        """Show the error on the list of actions."""
        messages.error(self.request, error.message)
        return self.go("dashboard:batches")
