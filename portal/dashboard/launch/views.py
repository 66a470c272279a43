"""The wizard: one page, one request to open it, one to launch; what a choice means is asked while it changes."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from portal.dashboard.launch.forms import place_of, read, request_of
from portal.dashboard.launch.wizard import open_wizard
from portal.dashboard.pages import Page
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.launch.create import check_launch, launch
from provisioning.compute.services.key_pairs import create_key_pair


class Launch(Page):
    """The wizard's page."""

    section = "launch"
    rule = "compute:servers:create"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Open the wizard with something in it that can be launched as it stands."""
        return self.page("dashboard/launch/page.html", open_wizard(self.context).shown())

    def post(self, request: HttpRequest) -> HttpResponse:
        """Launch; what the service refuses is shown at its field, with everything else as it was typed."""
        choices = read(request.POST)
        try:
            instances = launch(self.context, request_of(choices))
        except NovellaError as error:
            wizard = open_wizard(self.context, choices)
            wizard.errors = {place_of(error): error.message}
            return self.page("dashboard/launch/page.html", wizard.shown(), status=422)
        if len(instances) == 1:
            return self.go("dashboard:instance", instances[0].id)
        return self.go("dashboard:instances", said=f"{len(instances)} instances are being launched.")


class Quote(Page):
    """What the present choices would use, and whether they could be launched."""

    rule = "compute:servers:create"
    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Return the summary, and beside it the sizes judged anew for the image and the number chosen."""
        choices = read(request.POST)
        wizard = open_wizard(self.context, choices)
        try:
            check_launch(self.context, request_of(choices))
        except NovellaError as error:
            place = place_of(error)
            wizard.errors = {} if place == "name" else {place: error.message}
        return self.part("dashboard/launch/_answer.html", wizard.shown())


class Keys(Page):
    """A key pair made or imported without leaving the wizard."""

    rule = "compute:keypairs:create"
    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Return the list of keys with the new one chosen; its private half is in this answer and nowhere else."""
        name, public_key = request.POST.get("key_new_name", "").strip(), request.POST.get("key_new_public", "").strip()
        context: dict[str, Any] = {
            "private_key": None,
            "new_name": name,
            "new_public": public_key,
            "errors": {},
            "key_error": "",
        }
        chosen = request.POST.get("key_name", "")
        try:
            pair, context["private_key"] = create_key_pair(self.context, name, public_key or None)
            chosen, context["new_name"], context["new_public"] = pair.name, "", ""
        except NovellaError as error:
            context["key_error"] = error.message
        keys = compute.key_pairs_for(self.context)
        return self.part("dashboard/launch/_keys.html", {**context, "keys": keys, "chosen": chosen, "new": chosen})
