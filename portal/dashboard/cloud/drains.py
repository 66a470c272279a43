"""The drain of a host: its plan, its progress, and its changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone

from portal.common.durations import about
from portal.dashboard.cloud.hosts import LONGEST_REASON, HostPage
from portal.dashboard.cloud.watched import HOST_ID, WatchedPage
from portal.dashboard.frame.forms import Form, OfferedListField
from portal.dashboard.records.questions import Question, QuestionPage
from portal.dashboard.records.views import Crumbs, SheetPage
from portal.dashboard.words.names import bdi
from portal.dashboard.words.plain import plain
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.plans.moves import PlannedMove, known_ways
from provisioning.compute.records.migration_records import KIND as MIGRATIONS
from provisioning.drains import selectors, services
from provisioning.drains.models import Drain, DrainItem
from provisioning.drains.selectors import DRAIN, SHOW
from provisioning.drains.services import DrainRequest
from provisioning.hosts.notifications import KIND
from provisioning.hosts.selectors import is_alive
from provisioning.identity.selectors.lookups import projects_by_id

STATES = {
    "waiting": "Waiting",
    "moving": "In progress",
    "done": "Done",
    "failed": "Failed",
    "stays": "Stays",
    "cancelled": "Not begun",
}
WORDS = {"live": "Live migration", "cold": "Migration", "evacuate": "Evacuation", "stop": "Stop", "start": "Start"}
"""Way → its name on pages; other ways have their own label."""


class HostDrain(WatchedPage, HostPage):
    """The plan of a drain, or the progress of one that is not finished."""

    rule = SHOW
    template = "dashboard/cloud/drain.html"
    live_templates = ("dashboard/cloud/_drain_progress.html",)
    live_kind = "drain"
    kinds = frozenset({KIND, MIGRATIONS, services.EVENT})
    key = HOST_ID

    def parts(self) -> Mapping[str, Any]:
        host, can = self.record, {"drain": self.allows(DRAIN)}
        latest = selectors.latest_of(host)
        unfinished = latest is not None and latest.finished_at is None
        parts = {"host": host, "can": can, "unfinished": unfinished, "latest": latest}
        return parts if latest is None else parts | _progress(latest)

    def whole(self, parts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the plan, unless a drain is in progress."""
        if parts["unfinished"]:
            return {"parallel": settings.DRAIN_MOVES}
        host = self.record
        offered = known_ways(host_up=is_alive(host, timezone.now()))
        try:
            chosen = services.checked_ways(host, self.request.GET.getlist("ways"))
        except InvalidInputError:  # an old address
            chosen = services.usual_ways(host)
        plan = selectors.plan_for(self.context, host, chosen)
        projects = projects_by_id({move.instance.project_id for move in plan.moves})
        query = QueryDict(mutable=True)
        query.setlist("ways", chosen)
        return {
            "plan": plan,
            "takes": about(plan.seconds(settings.DRAIN_MOVES)),
            "parallel": settings.DRAIN_MOVES,
            "moves": [_move(move, projects.get(move.instance.project_id)) for move in plan.moves],
            "ways": [{"way": way, "chosen": way.name in chosen} for way in offered],
            "query": query.urlencode(),
        }


def _move(move: PlannedMove, project: Any) -> dict[str, Any]:
    return {"move": move, "project": project, "way": WORDS.get(move.way, move.way), "takes": about(move.seconds)}


def _progress(drain: Drain) -> dict[str, Any]:
    items = selectors.items_of(drain)
    progress = selectors.progress_of(drain, items, settings.DRAIN_MOVES)
    back = drain.finished_at is not None and drain.returns_id is None
    return {
        "progress": progress,
        "left": about(progress.seconds),
        "items": [_item(item) for item in items],
        "may_return": back and progress.done > 0 and drain.host.enabled,
    }


def _item(item: DrainItem) -> dict[str, Any]:
    return {"item": item, "word": STATES[item.state], "way": WORDS.get(item.way, item.way)}


class DrainForm(Form):
    """The allowed ways, and the reason of the maintenance."""

    ways = OfferedListField(label="Allowed ways", error_messages={"required": "Choose at least one."})
    reason = forms.CharField(
        max_length=LONGEST_REASON,
        required=False,
        help_text="Operators see it on the page of the host, with your name and the time.",
    )
    service_fields = {"disabled_reason": "reason"}


class HostDrainStart(SheetPage, HostPage):
    """Starts the maintenance and the drain of a host."""

    rule = DRAIN
    submit = "Start drain"

    def form(self, data: QueryDict | None = None) -> Form:
        host = self.record
        initial = {
            "ways": self.request.GET.getlist("ways") or services.usual_ways(host),
            "reason": host.disabled_reason,
        }
        form = DrainForm(data, initial=initial)
        offered = known_ways(host_up=is_alive(host, timezone.now()))
        form.offer("ways", [(way.name, f"{way.label}. {plain(way.consequence)}") for way in offered])
        return form

    def save(self, form: Form) -> HttpResponse:
        drain = DrainRequest(form.cleaned_data["ways"], form.cleaned_data["reason"])
        services.begin(self.context, self.record, drain)
        return self.go(self.back(), message=f"The drain of {bdi(self.record.name)} has begun.")

    def back(self) -> str:
        return reverse("dashboard:host_drain", args=[self.record.pk])

    def crumbs(self) -> Crumbs:
        return [(self.record.name, reverse("dashboard:host", args=[self.record.pk])), ("Drain", self.back())]

    def title(self) -> str:
        return f"Drain {bdi(self.record.name)}?"

    def about(self) -> str:
        return (
            "It gets no new instances, and its instances are moved or stopped, a few at the same time. For each of them"
            " the first possible method is used."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Question):
    """A change of a drain after confirmation."""

    service: Callable[[RequestContext, str], Drain]
    danger: bool = False


CHANGES = {
    "pause": Change(
        "Pause the drain of {name}?",
        "No other moves begin until it is continued. Moves in progress end.",
        "Pause",
        "The drain of {name} is paused.",
        service=services.pause,
    ),
    "resume": Change(
        "Continue the drain of {name}?",
        "The next instances are moved or stopped.",
        "Continue",
        "The drain of {name} continues.",
        service=services.resume,
    ),
    "cancel": Change(
        "Cancel the drain of {name}?",
        "Moves in progress continue; instances that are still waiting are not moved. The host remains in maintenance.",
        "Cancel drain",
        "The drain of {name} is cancelled.",
        service=services.cancel,
        danger=True,
    ),
    "return": Change(
        "Move the instances back to {name}?",
        "Instances of this drain that can move go back to this host, and those that it stopped are started.",
        "Move back",
        "The instances of {name} are coming back.",
        service=services.bring_back,
    ),
}


class HostDrainChange(QuestionPage, HostPage):
    """Pauses, continues, cancels or reverses the newest drain of a host."""

    rule = DRAIN
    stays = True

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        if kwargs["change"] not in CHANGES:
            raise Http404
        self.change = CHANGES[kwargs["change"]]

    def as_question(self) -> Question:
        return self.change

    def do(self) -> None:
        latest = selectors.latest_of(self.record)
        if latest is None:
            raise Http404
        self.change.service(self.context, str(latest.pk))

    def back(self) -> str:
        return reverse("dashboard:host_drain", args=[self.record.pk])
