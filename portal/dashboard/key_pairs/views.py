"""Key pairs of the person who is signed in."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.dashboard.pages import Page
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair


class KeyPairPage(Page):
    """Base of the pages of this panel."""

    section = "key_pairs"
    rule = "compute:keypairs:list"

    def back(self) -> str:
        """Refusals are shown on the list."""
        return "dashboard:key_pairs"


class KeyPairList(KeyPairPage):
    """One's own keys."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show them by name."""
        context = {
            "rows": selectors.key_pairs_for(self.context),
            "can_create": self.allows("compute:keypairs:create"),
            "can_delete": self.allows("compute:keypairs:delete"),
        }
        return self.page("dashboard/key_pairs/list.html", context)


@method_decorator(never_cache, name="dispatch")
class KeyPairCreate(KeyPairPage):
    """A new pair, or the public half of one that exists."""

    rule = "compute:keypairs:create"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        return self.page("dashboard/key_pairs/create.html", {"values": {"how": "make"}, "errors": {}})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make or import it; a private key is in this answer and nowhere else."""
        data = request.POST
        imports = data.get("how") == "import"
        try:
            pair, private_key = create_key_pair(
                self.context,
                data.get("name", "").strip(),
                data.get("public_key", "").strip() if imports else None,
                algorithm="rsa" if data.get("algorithm") == "rsa" else "ed25519",
            )
        except NovellaError as error:
            context = {"values": data, "errors": {error.field or "form": error.message}}
            return self.page("dashboard/key_pairs/create.html", context, status=422)
        if private_key is None:
            return self.go("dashboard:key_pairs", said=f"{pair.name} can be chosen at the next launch.")
        return self.page("dashboard/key_pairs/created.html", {"pair": pair, "private_key": private_key}, status=201)


class KeyPairDelete(KeyPairPage):
    """A key that is no longer offered."""

    rule = "compute:keypairs:delete"

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        """Ask."""
        pair = selectors.key_pair_for(self.context, name)
        return self.ask_first(
            f"Delete {pair.name}?", "It is not offered at launch any more. Instances that have the key keep it."
        )

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Delete."""
        delete_key_pair(self.context, selectors.key_pair_for(self.context, name).name)
        return self.go("dashboard:key_pairs", said=f"{name} was deleted.")
