"""The user's key pairs: the list, the form for a new one, and the deletion."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.views.decorators.cache import never_cache

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import ChoiceLabel, Form
from portal.dashboard.frame.pages import FormPage, Page
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import BY_NAME, Column, Empty, HeadLink, RecordList, searched
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.models import KeyPair
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair
from provisioning.identity import policy

ORIGINS = (
    ("make", ChoiceLabel("Create a new pair", "The private key is shown once, to download.")),
    ("import", ChoiceLabel("Import an existing key", "Paste the public key.")),
)
ALGORITHMS = (("ed25519", "ed25519, short and strong"), ("rsa", "RSA, for old programs"))


class KeyPairForm(Form):
    """A name, and the type of a new pair or the public key of an existing one."""

    notes = {"public_key": ""}

    name = forms.CharField(max_length=255, widget=forms.TextInput({"placeholder": "laptop"}))
    how = forms.ChoiceField(label="Source", choices=ORIGINS, initial="make", required=False, widget=forms.RadioSelect)
    algorithm = forms.ChoiceField(label="Kind", choices=ALGORITHMS, required=False)
    public_key = forms.CharField(
        required=False,
        widget=forms.Textarea({"class": "mono small", "rows": 4, "placeholder": "ssh-ed25519 AAAA… you@laptop"}),
        help_text="The content of ~/.ssh/id_ed25519.pub. Never paste a private key anywhere.",
    )


Row = dict[str, Any]
SHOWN = 36
"""Characters of a public key that the list shows."""


def _rows(context: RequestContext, key_pairs: Sequence[KeyPair]) -> list[Row]:
    can_delete = policy.allows(context, "os_compute_api:os-keypairs:delete")
    return [{"key": each, "can_delete": can_delete} for each in key_pairs]


def _public_key(row: Row) -> object:
    text = row["key"].public_key
    short = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    return cells.copy(text, format_html('<span class="mono xsmall muted">{}</span>', short), "the public key")


def _buttons(row: Row) -> object:
    name = row["key"].name
    return cells.button("trash", "Delete", name, "dashboard:key_pair_delete", name) if row["can_delete"] else ""


KEY_PAIRS = RecordList[KeyPair](
    key="key_pairs",
    model=KeyPair,
    one="key pair",
    noun="key pairs",
    rule="os_compute_api:os-keypairs:index",
    row_id="key",
    records=lambda context, _: selectors.own_key_pairs(context),
    rows=_rows,
    default="name",
    columns=(
        columns.name(lambda row: cells.name(row["key"].name), lambda row: row["key"].name, sort=BY_NAME),
        columns.attribute("fingerprint", "MD5 fingerprint", "key", css="mono xsmall"),
        Column("public_key", "Public key", _public_key, plain=lambda row: row["key"].public_key),
        columns.age("key"),
    ),
    actions=_buttons,
    search=searched("name", "fingerprint", "public_key", exact=()),
    find="Find by name, fingerprint or key",
    bulk=bulk_actions("key_pairs"),
    empty=Empty(
        "key",
        "No key pairs yet",
        "A key pair allows you to connect to your instances by SSH without a password. Import the public "
        "key that you already use, or create a new pair.",
    ),
    create=HeadLink(
        "Add key pair",
        "dashboard:key_pair_create",
        rule="os_compute_api:os-keypairs:create",
        first="Add the first key pair",
    ),
)


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
