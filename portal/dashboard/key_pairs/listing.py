"""The list of the user's key pairs."""

from collections.abc import Sequence
from typing import Any

from django.utils.html import format_html

from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import BY_NAME, Column, Empty, HeadLink, RecordList, searched
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.models import KeyPair
from provisioning.identity import policy

Row = dict[str, Any]
SHOWN = 36
"""Characters of a public key that the list shows."""


def _rows(context: RequestContext, found: Sequence[KeyPair]) -> list[Row]:
    can_delete = policy.allows(context, "os_compute_api:os-keypairs:delete")
    return [{"key": each, "can_delete": can_delete} for each in found]


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
        *("Add key pair", "dashboard:key_pair_create"),
        rule="os_compute_api:os-keypairs:create",
        first="Add the first key pair",
    ),
)
