"""The image catalogue: its entries, and adding one."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.dashboard.frame.pages import Page
from portal.dashboard.images.catalogue.cards import card_of, groups_of
from portal.dashboard.words.names import bdi
from provisioning.catalogue import services
from provisioning.catalogue.selectors import catalogue_for, entry_of
from provisioning.catalogue.services.adding import may_publish


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
        found = catalogue_for(self.context)
        groups = groups_of([card_of(self.context, offer) for offer in found.offers])
        values = {"live_since": since, "catalogue": found, "groups": groups, "is_operator": may_publish(self.context)}
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
