"""Key pairs (Compute API reference, "Keypairs")."""

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.paging import next_links, read_page
from portal.api.compute.base import ComputeView
from portal.api.compute.keypairs import schemas as keypair_schemas
from portal.api.compute.keypairs.schemas import OF_USERS, PAGED
from portal.api.compute.schemas import last
from portal.api.compute.timestamps import timestamp_micro
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import NOBODY, read_id
from provisioning.compute import selectors
from provisioning.compute.models import KeyPair
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair

_TYPED = (2, 2)


class KeyPairShapes(ComputeView):
    """Representations of key pairs."""

    def shape(self, row: KeyPair) -> dict[str, Any]:
        shape: dict[str, Any] = {"name": row.name, "public_key": row.public_key, "fingerprint": row.fingerprint}
        if self.microversion >= _TYPED:
            shape["type"] = row.type
        return shape

    def asked_user(self) -> str | None:
        """Return the user that the query specifies; ignored before 2.10."""
        query = self.checked_query()
        return last(query, "user_id") or None if self.microversion >= OF_USERS else None


class KeyPairsView(KeyPairShapes):
    """``GET`` and ``POST /os-keypairs``."""

    rules = {"GET": "os_compute_api:os-keypairs:index", "POST": "os_compute_api:os-keypairs:create"}
    schemas = {"POST": keypair_schemas.create}
    queries = {"GET": keypair_schemas.listing}

    def get(self, request: Request) -> Response:
        """List the caller's key pairs, or the key pairs of the user in the query; paged from 2.35 on."""
        user = _user(self.asked_user())
        if self.microversion < PAGED:
            found = selectors.key_pairs_for(self.context, user_id=user)
            return Response({"keypairs": [{"keypair": self.shape(row)} for row in found]})
        page = read_page(request, zero_is_none=True)
        found = selectors.key_pairs_for(self.context, user_id=user, limit=page.limit, marker=page.marker)
        answer: dict[str, Any] = {"keypairs": [{"keypair": self.shape(row)} for row in found]}
        following = next_links(request, page, [row.name for row in found], f"{self.base}/os-keypairs")
        if following:
            answer["keypairs_links"] = following
        return Response(answer)

    def post(self, request: Request) -> Response:
        """Import a public key or generate a key pair; only this response contains the private key."""
        given = self.checked_body()["keypair"]
        named = given.get("user_id")
        user = read_id(named)
        if named is not None and user is None:
            raise InvalidInputError(f"User ID {named[:64]} is not a valid user.", field="user_id")
        row, private_key = create_key_pair(
            self.context,
            given["name"],
            public_key=given.get("public_key"),
            type=given.get("type", "ssh"),
            algorithm=given.get("novella:algorithm", "ed25519"),
            user_id=user,
        )
        shape = self.shape(row) | {"user_id": row.user_id.hex}
        if private_key is not None:
            shape["private_key"] = private_key
        return Response({"keypair": shape}, status=201 if self.microversion >= _TYPED else 200)


class KeyPairView(KeyPairShapes):
    """``GET`` and ``DELETE /os-keypairs/{name}``."""

    rules = {"GET": "os_compute_api:os-keypairs:show", "DELETE": "os_compute_api:os-keypairs:delete"}
    queries = {"GET": keypair_schemas.one, "DELETE": keypair_schemas.one}

    def get(self, request: Request, name: str) -> Response:
        """Show one key pair."""
        row = selectors.key_pair_for(self.context, name, user_id=_user(self.asked_user()))
        shape = self.shape(row) | {
            "user_id": row.user_id.hex,
            "id": row.pk,
            "created_at": timestamp_micro(row.created_at),
            "updated_at": None,
            "deleted": False,
            "deleted_at": None,
        }
        return Response({"keypair": shape})

    def delete(self, request: Request, name: str) -> Response:
        """Delete a key pair; servers keep their copy of the public key."""
        delete_key_pair(self.context, name, user_id=_user(self.asked_user()))
        return Response(status=204 if self.microversion >= _TYPED else 202)


def _user(text: str | None) -> uuid.UUID | None:
    """Return the id of the owner in the query, None without one; text that is not an id gives ``NOBODY``, who has no
    key pairs.
    """
    return None if text is None else read_id(text) or NOBODY
