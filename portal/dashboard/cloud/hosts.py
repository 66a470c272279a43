"""The page of one host, maintenance and force down."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from portal.common import statuses
from portal.dashboard.cloud.listing import host_rows
from portal.dashboard.cloud.migrations import moves_on
from portal.dashboard.cloud.pools import host_state
from portal.dashboard.cloud.things import troubles_of
from portal.dashboard.cloud.watched import HOST_ID, WatchedPage
from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import Page, PageRequest
from portal.dashboard.graphs import sparklines
from portal.dashboard.graphs.parts import OF_HOSTS
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import Crumbs, SheetPage
from portal.dashboard.words import wording
from portal.dashboard.words.names import bdi
from provisioning.batches import services as batches
from provisioning.batches.kinds.instances import SERVERS
from provisioning.batches.services import BatchRequest
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.models import Instance
from provisioning.compute.plans.moves import PlannedMove, plan_host
from provisioning.compute.records.migration_records import KIND as MIGRATIONS
from provisioning.compute.selectors.hosts import MOST_GUESTS, guests_on
from provisioning.compute.selectors.migrations import EVERY_PROJECT
from provisioning.compute.services.hosts import change_host, disable_host, enable_host
from provisioning.doctor.overview.cloud import RULE as CLOUD
from provisioning.doctor.overview.cloud import faults_of_host
from provisioning.drains.selectors import SHOW as DRAINS
from provisioning.drains.services import EVENT as DRAIN_EVENT
from provisioning.hosts.models import Host, HostCertificate
from provisioning.hosts.notifications import KIND
from provisioning.hosts.selectors import host_for, is_alive
from provisioning.identity.selectors.lookups import projects_by_id, users_by_id
from provisioning.network.selectors.hosts import networks_on
from provisioning.volumes.models import PoolHost
from provisioning.volumes.selectors.pools import RULE as POOLS

SHOW = "os_compute_api:os-hypervisors:show"
CHANGE = "os_compute_api:os-services:update"
LONGEST_REASON = 255


class HostPage(Page):
    """Base of the pages of one host."""

    section = "hosts"
    rule = SHOW
    back_to = "dashboard:hosts"
    record: Host

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        self.record = host_for(self.context, kwargs["host_id"], self.rule)
        return {}

    def back(self) -> str:
        return reverse("dashboard:host", args=[self.record.pk])


class HostDetail(WatchedPage, HostPage):
    """The page of one host: state, capacity, faults, instances, pools and networks."""

    template = "dashboard/cloud/host.html"
    live_templates = ("dashboard/cloud/_host.html", "dashboard/cloud/_host_actions.html")
    live_kind = "host"
    kinds = frozenset({KIND, MIGRATIONS, DRAIN_EVENT})
    key = HOST_ID

    def parts(self) -> Mapping[str, Any]:
        host, now = self.record, timezone.now()
        guests = guests_on(host)
        projects = projects_by_id({guest.project_id for guest in guests})
        users = users_by_id({guest.user_id for guest in guests})
        faults = faults_of_host(self.context, host) if self.allows(CLOUD) else []
        return {
            "host": host,
            "row": host_rows([host], now)[0],
            "troubles": troubles_of(self.context, faults),
            "guests": [
                _guest(guest, projects.get(guest.project_id), users.get(guest.user_id), self.context.project_id)
                for guest in guests
            ],
            "many": host.instances_allocated,
            "more": len(guests) == MOST_GUESTS,
            "moves": moves_on(self.context, host),
            "pools": self._pools(),
            "networks": networks_on(host),
            "aggregates": list(host.aggregates.order_by("name")),
            "certificate": HostCertificate.objects.filter(host=host).first(),
            "repairs": [each for each in reversed(host.repairs) if isinstance(each, dict)][:10],
            "can": {
                "change": self.allows(CHANGE),
                "admin": self.allows("novella:admin"),
                "evacuate": self.allows(Evacuate.rule),
                "drains": self.allows(DRAINS),
                "migrations": self.allows(EVERY_PROJECT),
                "graphs": self.allows(OF_HOSTS),
                "pools": self.allows(POOLS),
            },
        }

    def _pools(self) -> list[tuple[PoolHost, statuses.Status, SafeString]]:
        """Return the pools that the host serves, with their states and the lines of their used space."""
        found, now = list(self.record.servings.select_related("pool").order_by("pool__name", "pool_id")), timezone.now()
        lines = sparklines.of_pools(each.pool for each in found) if self.allows(OF_HOSTS) else {}
        return [(each, host_state(each, now), lines.get(each.pool_id, SafeString(""))) for each in found]


def _guest(guest: Instance, project: Any, user: Any, own: uuid.UUID | None) -> dict[str, Any]:
    """Return a row of the table of a host's instances."""
    flavor = guest.flavor
    return {
        "instance": guest,
        "status": statuses.server_status(guest, timezone.now()),
        "size": f"{flavor['vcpus']} vCPU · {wording.mebibytes(flavor['memory_mb'])} · {_disk_of(flavor)} GiB",
        "flavor": flavor["name"],
        "project": project,
        "user": user,
    }


def _disk_of(flavor: Mapping[str, Any]) -> int:
    return int(flavor["root_gb"]) + int(flavor["ephemeral_gb"])


class HostEvacuation(HostPage):
    """Shows the effect of the host's death on its instances, and evacuates them when the host is down."""

    rule = Evacuate.rule

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Show the plan; for the panel of the host's page only its summary."""
        plan = plan_host(self.record, [Evacuate.key], host_up=False)
        down = not is_alive(self.record, timezone.now())
        projects = projects_by_id({move.instance.project_id for move in plan.moves})
        context = {
            "host": self.record,
            "plan": plan,
            "moves": [_move(move, projects.get(move.instance.project_id)) for move in plan.moves],
            "down": down,
            "can": {"evacuate": down and bool(plan.going)},
        }
        if cast("PageRequest", request).htmx:
            return self.part("dashboard/cloud/_evacuation.html", context)
        return self.page("dashboard/cloud/evacuation.html", context)

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Evacuate the instances of the plan in the background, in its order; a plan that is out of date changes
        nothing.
        """
        name = bdi(self.record.name)
        if is_alive(self.record, timezone.now()):
            return self.go(self.back(), message=f"{name} is up, so nothing is evacuated.", level=messages.WARNING)
        ids = [str(move.instance.id) for move in plan_host(self.record, [Evacuate.key], host_up=False).going]
        if not ids:
            message = f"No instance of {name} can be evacuated now."
            return self.go(self.back(), message=message, level=messages.WARNING)
        batches.create(self.context, BatchRequest(SERVERS.name, Evacuate.key, ids))
        return self.go(self.back(), message=f"The instances of {name} are being evacuated.")


def _move(move: PlannedMove, project: Any) -> dict[str, Any]:
    """Return a row of the table of a plan."""
    return {
        "move": move,
        "instance": move.instance,
        "status": statuses.server_status(move.instance, timezone.now()),
        "project": project,
        "flavor": move.instance.flavor["name"],
    }


class MaintenanceForm(Form):
    """The reason of a maintenance."""

    reason = forms.CharField(
        max_length=LONGEST_REASON, help_text="Operators see it on the page of the host, with your name and the time."
    )
    service_fields = {"disabled_reason": "reason"}


class HostMaintenance(SheetPage, HostPage):
    """Starts a maintenance: the host gets no new instances."""

    edits = True
    rule = CHANGE
    submit = "Start maintenance"

    def form(self, data: QueryDict | None = None) -> Form:
        return MaintenanceForm(data, initial={"reason": self.record.disabled_reason})

    def save(self, form: Form) -> HttpResponse:
        disable_host(self.context, self.record.id, form.cleaned_data["reason"])
        return self.go(self.back(), message=f"{bdi(self.record.name)} is in maintenance.")

    def calls(self, form: Form) -> Sequence[Call]:
        reason = {"disabled_reason": form.cleaned_data["reason"]}
        return [Call(copied.MAINTENANCE, {"host": self.record.name, "binary": "nova-compute", **reason})]

    def crumbs(self) -> Crumbs:
        return [(self.record.name, self.back())]

    def title(self) -> str:
        return f"Start maintenance of {bdi(self.record.name)}?"

    def about(self) -> str:
        many = self.record.instances_allocated
        if not many:
            return "It gets no new instances. None are on it."
        stay = "The instance on it keeps" if many == 1 else f"The {many} instances on it keep"
        return f"It gets no new instances. {stay} running: its page lists what must move."


class HostQuestion(QuestionPage, HostPage):
    """Base of the actions on a host with a confirmation."""

    rule = CHANGE
    danger = False
    stays = True


class HostMaintenanceEnd(HostQuestion):
    """Schedules new instances on the host again."""

    question = "End maintenance of {name}?"
    consequence = "New instances are scheduled on it again."
    label = "End maintenance"
    message = "{name} gets new instances again."

    def do(self) -> None:
        enable_host(self.context, self.record.id)


class HostForceDown(HostQuestion):
    """Declares that the guests of the host no longer run or write, so that nothing waits for it."""

    question = "Is {name} powered off or isolated?"
    consequence = (
        "Force a host down only if its instances can no longer run or write. Deleting them, and detaching their"
        " volumes, then no longer waits for the host. An instance that still runs could damage its volumes."
    )
    label = "Force down"
    message = "{name} is forced down."
    danger = True

    def do(self) -> None:
        change_host(self.context, self.record.id, forced_down=True)


class HostForceDownEnd(HostQuestion):
    """Lets a host that was forced down come up again."""

    question = "Undo force down of {name}?"
    consequence = "It is up again as soon as its agent answers."
    label = "Undo force down"
    message = "{name} is no longer forced down."

    def do(self) -> None:
        change_host(self.context, self.record.id, forced_down=False)
