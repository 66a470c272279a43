"""The topology page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from portal.common import statuses
from portal.common.statuses import Status
from portal.dashboard.frame.pages import Page
from portal.dashboard.network.wording import count
from portal.dashboard.topology.picture import BOX_HEIGHT, BOX_WIDTH, Device, lay_out
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.identity import policy
from provisioning.network.models import Network, Router
from provisioning.network.selectors.topology import Leg, topology_for

MOST = 200
"""Maximum number of instances shown."""
FOLDED = 6
"""If more instances than this number are on one network, and on no other network, they are collapsed into one box."""
TONES = ("bad", "warn", "busy", "ok", "off")
"""Tones of statuses, most severe first."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A router, an instance, or the collapsed instances of a network, as shown in the topology."""

    kind: str
    id: str
    name: str
    status: Status
    url: str
    legs: list[Leg] = field(default_factory=list)
    about: str = ""
    """The text on hover and for screen readers."""


class TopologyPage(Page):
    """Networks, routers and instances of the project, live; ``?open=`` is the network whose instances are expanded."""

    section = "topology"
    rule = "get_network"
    live_page = "topology"

    def get(self, request: HttpRequest) -> HttpResponse:
        since = self.live_since()
        opened = str(read_id(request.GET.get("open", "")) or "")
        self.live_page = f"topology/{opened}" if opened else "topology"
        return self.page("dashboard/topology/page.html", {"live_since": since, **picture_for(self.context, opened)})


def picture_for(context: RequestContext, opened: str = "") -> dict[str, object]:
    """Return the context of the topology; ``opened``: the id of the network whose instances are expanded."""
    instances = compute.instances_for(context, limit=MOST + 1)
    topology = topology_for(context, [instance.id for instance in instances[:MOST]])
    links = policy.allows(context, "get_router")
    routers = [_router(row, topology.legs.get(row.id, []), link=links) for row in topology.routers]
    guests = [_instance(row, topology.legs.get(row.id, [])) for row in instances[:MOST]]
    shown = [*routers, *_folded(guests, topology.networks, opened)]
    return {
        "pictures": lay_out(topology.networks, [Device(item, item.name, _texts(item.legs)) for item in shown]),
        "box": (BOX_WIDTH, BOX_HEIGHT),
        "any": bool(topology.networks),
        "more": len(instances) > MOST,
        "most": MOST,
        "can_create": policy.allows(context, "create_network"),
    }


def _router(router: Router, legs: list[Leg], *, link: bool) -> Shown:
    word = "DOWN" if not router.admin_state_up and router.status == "ACTIVE" else router.status
    url = reverse("dashboard:router", args=[router.id]) if link else ""
    status = statuses.ROUTER_STATUS[word]
    about = f"{bdi(router.name or str(router.id)[:8])}: Router, {status.word}, {_where(legs)}"
    return Shown("router", str(router.id), str(router), status, url, legs, about)


def _instance(instance: Instance, legs: list[Leg]) -> Shown:
    status = statuses.server_status(instance, timezone.now())
    url = reverse("dashboard:instance", args=[instance.id])
    about = f"Instance {bdi(instance.name)}: {status.word}, {_where(legs)}"
    return Shown("instance", str(instance.id), instance.name, status, url, legs, about)


def _folded(guests: Sequence[Shown], networks: Sequence[Network], opened: str) -> list[Shown]:
    """Return the boxes of the instances. A box replaces the instances of a network that has many.

    The network ``opened`` has the boxes of its instances, and one to collapse them again.
    """
    alone: dict[object, list[Shown]] = {}
    for guest in guests:
        on = {leg.network_id for leg in guest.legs}
        if len(on) == 1:
            alone.setdefault(on.pop(), []).append(guest)
    found, hidden = [], set()
    for network in networks:
        crowd = alone.get(network.id, [])
        if len(crowd) > FOLDED:
            found.append(_crowd(network, crowd, opened=str(network.id) == opened))
            hidden |= set() if str(network.id) == opened else {guest.id for guest in crowd}
    return [*found, *(guest for guest in guests if guest.id not in hidden)]


def _crowd(network: Network, crowd: Sequence[Shown], *, opened: bool) -> Shown:
    """Return the box of a crowded network, which expands or collapses its instances."""
    tones = sorted(crowd, key=lambda guest: TONES.index(guest.status.tone) if guest.status.tone in TONES else 0)
    words = Counter(guest.status.word for guest in crowd).most_common()
    summary = ", ".join(f"{many} {word.lower()}" for word, many in words)
    name = count(len(crowd), "instance")
    here = reverse("dashboard:topology")
    url = f"{here}#net-{network.id}" if opened else f"{here}?open={network.id}#net-{network.id}"
    status = Status("fold them" if opened else summary, tones[0].status.tone, tones[0].status.icon)
    about = f"{bdi(name)} on {bdi(network)}: {summary}. {'Fold them' if opened else 'Show each'}"
    return Shown("crowd", f"crowd-{network.id}", name, status, url, [Leg(network.id, ())], about)


def _texts(legs: list[Leg]) -> dict[Any, list[str]]:
    texts: dict[Any, list[str]] = {}
    for leg in legs:
        texts.setdefault(leg.network_id, []).append(leg.addresses[0] if leg.addresses else "")
    return texts


def _where(legs: list[Leg]) -> str:
    return "; ".join(_addresses(leg) for leg in legs) or "on no network"


def _addresses(leg: Leg) -> str:
    addresses = ", ".join(leg.addresses) or "no address"
    return f"{addresses}, floating {leg.floating}" if leg.floating else addresses
