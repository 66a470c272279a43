"""Key pairs of the signed-in user."""

from collections.abc import Sequence

from django.http import HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage, Page
from portal.dashboard.key_pairs.forms import KeyPairForm
from portal.dashboard.key_pairs.listing import KEY_PAIRS
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.compute import selectors
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair


class KeyPairPage(Page):
    """Base of the pages of this panel."""

    section = "key_pairs"
    back_to = "dashboard:key_pairs"
    rule = "os_compute_api:os-keypairs:index"


class KeyPairList(ListPage, KeyPairPage):
    """The list of the user's key pairs."""

    records = KEY_PAIRS
    lead = "Your SSH keys, in every project. Novella stores only their public keys."


@method_decorator(never_cache, name="dispatch")
class KeyPairCreate(FormPage, KeyPairPage):
    """The form to create a key pair or import a public key."""

    rule = "os_compute_api:os-keypairs:create"
    template = "dashboard/key_pairs/create.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return KeyPairForm(data)

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        imports = typed["how"] == "import"
        values = {"public_key": typed["public_key"].strip()} if imports else {"algorithm": typed["algorithm"]}
        return [Call(copied.KEY_PAIR, {"name": typed["name"], **values})]

    def save(self, form: Form) -> HttpResponse:
        """Create or import the key pair; only this response contains a private key."""
        typed = form.cleaned_data
        pair, private_key = create_key_pair(
            self.context,
            typed["name"],
            typed["public_key"] if typed["how"] == "import" else None,
            algorithm=typed["algorithm"] or "ed25519",
        )
        if private_key is None:
            return self.go("dashboard:key_pairs", message=f"{bdi(pair.name)} can be chosen at the next launch.")
        return self.page("dashboard/key_pairs/created.html", {"pair": pair, "private_key": private_key}, status=201)


class KeyPairDelete(QuestionPage, KeyPairPage):
    """Asks for confirmation, and deletes a key pair."""

    rule = "os_compute_api:os-keypairs:delete"
    consequence = "It is no longer offered at launch. Existing instances keep the key."

    def find(self) -> None:
        self.record = selectors.key_pair_for(self.context, self.kwargs["name"])

    def do(self) -> None:
        delete_key_pair(self.context, self.record.name)
