"""The image catalogue: its cards, for the page and for live updates, and adding an image."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from portal.common import statuses
from portal.dashboard.frame.pages import Page
from portal.dashboard.images.marks import mark_of
from portal.dashboard.words.names import bdi
from provisioning.catalogue import services
from provisioning.catalogue.selectors import Offer, State, catalogue_for, entries_of_images, entry_of
from provisioning.catalogue.services.adding import may_publish
from provisioning.common.context import RequestContext
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy

Card = dict[str, Any]
CATALOGUE, IMAGE = "catalogue", "image"
"""Kinds of events that change cards."""
STATUS = {
    State.FETCHING: statuses.Status("Fetching", "busy", "arrow-repeat"),
    State.ADDED: statuses.Status("Added", "ok", "check-circle-fill"),
    State.NEWER: statuses.Status("Newer version available", "warn", "arrow-up-circle-fill"),
}
ARCHITECTURES = {"x86_64": "64-bit PC (x86_64)", "aarch64": "64-bit ARM (aarch64)"}


def card_of(context: RequestContext, offer: Offer) -> Card:
    """Return an entry with its state and the permitted buttons."""
    can_add = offer.state in {State.ABSENT, State.NEWER} and may_add(context)
    ready = offer.image is not None and offer.state in {State.ADDED, State.NEWER} and offer.image.status == "active"
    return {
        "offer": offer,
        "entry": offer.entry,
        "mark": SafeString("") if offer.entry.mark else mark_of(offer.entry.distro),
        "fetching": offer.state == State.FETCHING,
        "newer": offer.state == State.NEWER,
        "status": STATUS.get(offer.state),
        "where": "for all projects" if offer.for_all else "in this project",
        "can_add": can_add,
        "can_publish": can_add and may_publish(context),
        "can_launch": ready and policy.allows(context, "os_compute_api:servers:create"),
        "source": offer.entry.host or "the folder of the catalogue",
    }


def may_add(context: RequestContext) -> bool:
    return policy.allows(context, "add_image") and policy.allows(context, "modify_image")


def groups_of(cards: list[Card]) -> list[tuple[str, list[Card]]]:
    """Return the cards of each architecture under its name."""
    groups = {
        name: [card for card in cards if card["entry"].architecture == key] for key, name in ARCHITECTURES.items()
    }
    return [(name, some) for name, some in groups.items() if some]


def changed_cards(_: str, events: Sequence[LoggedEvent], context: RequestContext) -> str:
    """Render the cards that the events change."""
    if not policy.allows(context, "get_images"):
        return ""
    entries = {str(event.payload["entry"]) for event in events if event.kind == CATALOGUE}
    entries |= entries_of_images(UUID(event.payload["id"]) for event in events if event.kind == IMAGE)
    offers = catalogue_for(context, entries).offers if entries else []
    return "".join(_rendered(card_of(context, offer)) for offer in offers)


def _rendered(card: Card) -> str:
    offer: Offer = card["offer"]
    announcement = f"{offer.entry.name} was added" if offer.state == State.ADDED else ""
    announcement = f"{offer.entry.name} could not be added" if offer.fault else announcement
    return render_to_string("dashboard/images/catalogue/_card.html", {"card": card, "announcement": announcement})


class CataloguePage(Page):
    """Base of the pages of this panel."""

    section = "catalogue"
    back_to = "dashboard:catalogue"


class CatalogueList(CataloguePage):
    """The entries of the catalogue."""

    rule = "get_images"
    live_page = "catalogue"

    def get(self, request: HttpRequest) -> HttpResponse:
        since = self.live_since()
        catalogue = catalogue_for(self.context)
        groups = groups_of([card_of(self.context, offer) for offer in catalogue.offers])
        values = {
            "live_since": since,
            "catalogue": catalogue,
            "groups": groups,
            "is_operator": may_publish(self.context),
        }
        return self.page("dashboard/images/catalogue/list.html", values)


class CatalogueAdd(CataloguePage):
    """Starts to fetch an image: ``visibility`` is ``public`` or ``private``."""

    rule = "add_image"
    http_method_names = ["post"]

    def post(self, request: HttpRequest, entry_id: str) -> HttpResponse:
        entry = entry_of(entry_id)
        services.add(self.context, entry_id, for_all=request.POST.get("visibility") == "public")
        return self.go(
            f"{reverse('dashboard:catalogue')}#catalogue-{entry.id}", message=f"{bdi(entry.name)} is being fetched."
        )
