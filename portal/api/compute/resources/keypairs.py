"""Key pairs (Compute API reference, "Keypairs")."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rest_framework.response import Response

from portal.api.compute.dialect import PAGES, PROJECT, SHOWN, TEXT, TIME, ListView, Resource, ResourceView
from portal.api.frame import Attribute, Checked, Operation, Parameter, Values
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute import selectors
from provisioning.compute.models import KeyPair
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair

TYPED = (2, 2)
OF_USERS = (2, 10)
"""From this version on operators may name another user."""
PAGED = (2, 35)
LAST_GENERATED, IMPORT_ONLY = (2, 91), (2, 92)
"""The last version that generates key pairs, and the first that only imports them."""


def _name(more: str = "") -> Checked:
    pattern = rf"^(?! )[a-zA-Z0-9 _{more}-]+(?<! )\Z"
    return Checked({"type": "string", "minLength": 1, "maxLength": 255, "pattern": pattern})


_KEY = Checked({"type": "string", "minLength": 1, "maxLength": 16_384})
_USER = Checked({"type": "string", "minLength": 1, "maxLength": 255})
_OF_USER = Parameter("user_id", TEXT, since=OF_USERS)


class KeyPairs(Resource):
    """Key pairs: each object of a list has an envelope of its own."""

    def entries(self, shapes: Sequence[Mapping[str, Any]]) -> Any:
        return [{self.name: shape} for shape in shapes]


def _user(query: Mapping[str, str]) -> uuid.UUID | None:
    """Return the id of the owner in the query; None if the query has none, and ``NOBODY``, who has no key pairs, for
    text that is not an id.
    """
    text = query.get("user_id")
    return read_id(text) or NOBODY if text else None


def _list(view: ListView, query: Mapping[str, str], **page: Any) -> list[KeyPair]:
    return selectors.key_pairs_for(view.context, user_id=_user(query), **page)


def _show(view: ResourceView, name: str) -> KeyPair:
    return selectors.key_pair_for(view.context, name, user_id=_user(view.query_values))


def _create(view: ResourceView, values: Values) -> Response:
    named = values.pop("user_id", None)
    user = read_id(named)
    if named is not None and user is None:
        raise InvalidInputError(f"User ID {named[:64]} is not a valid user.", field="user_id")
    row, private_key = create_key_pair(view.context, **values, user_id=user)
    [shape] = view.shapes([row], (*_SUMMARY, _OWNER))
    secret = {} if private_key is None else {"private_key": private_key}
    return Response({"keypair": shape | secret}, status=201 if view.microversion >= TYPED else 200)


def _delete(view: ResourceView, name: str) -> Response:
    delete_key_pair(view.context, name, user_id=_user(view.query_values))
    return Response(status=204 if view.microversion >= TYPED else 202)


_SUMMARY = (
    Attribute("name", _name(), post=True, required=True, until=LAST_GENERATED),
    Attribute("name", _name("@."), post=True, required=True, since=IMPORT_ONLY),
    Attribute("public_key", _KEY, post=True, until=LAST_GENERATED),
    Attribute("public_key", _KEY, post=True, required=True, since=IMPORT_ONLY),
    Attribute("fingerprint", SHOWN),
    Attribute("type", Checked({"enum": ["ssh", "x509"]}), post=True, since=TYPED),
)
_OWNER = Attribute("user_id", PROJECT)

KEYPAIR = KeyPairs(
    name="keypair",
    path="os-keypairs",
    parameter="name",
    list=Operation(
        _list,
        "os_compute_api:os-keypairs:index",
        "List the caller's key pairs, or the key pairs of the user in the query; paged from 2.35 on.",
        parameters=(*(replace(each, since=PAGED) for each in PAGES), _OF_USER),
        shows=_SUMMARY,
    ),
    show=Operation(_show, "os_compute_api:os-keypairs:show", "Show one key pair.", parameters=(_OF_USER,)),
    create=Operation(
        _create,
        "os_compute_api:os-keypairs:create",
        "Import a public key or generate a key pair; only this response contains the private key.",
    ),
    delete=Operation(
        _delete,
        "os_compute_api:os-keypairs:delete",
        "Delete a key pair; servers keep their copy of the public key.",
        parameters=(_OF_USER,),
    ),
    attributes=(
        *_SUMMARY,
        Attribute("user_id", _USER, post=True, shown=False, since=OF_USERS),
        # Novella's own: the type of a generated key. OpenStack has no such field, so its clients do not send it.
        Attribute(
            "novella:algorithm",
            Checked({"enum": ["ed25519", "rsa"]}),
            column="algorithm",
            post=True,
            shown=False,
            until=LAST_GENERATED,
        ),
        _OWNER,
        Attribute("id", SHOWN, column="pk"),
        Attribute("created_at", TIME),
        Attribute("updated_at", SHOWN, show=lambda row: None),
        Attribute("deleted", SHOWN, show=lambda row: False),
        Attribute("deleted_at", SHOWN, show=lambda row: None),
    ),
    key="name",
)
