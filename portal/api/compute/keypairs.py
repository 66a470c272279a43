"""Key pairs (Compute API reference, "Keypairs")."""

from __future__ import annotations

import functools
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.paging import next_links, read_page
from portal.api.compute import schemas
from portal.api.compute.server_shapes import timestamp_micro
from portal.api.compute.views import ComputeView
from provisioning.common.errors import ForbiddenError
from provisioning.common.ids import read_id
from provisioning.compute import selectors, services
from provisioning.compute.models import KeyPair

_create_schema = functools.cache(schemas.keypair_create)


class KeyPairsView(ComputeView):
    """``GET`` and ``POST /os-keypairs``."""

    rules = {"GET": "compute:keypairs:list", "POST": "compute:keypairs:create"}

    def get(self, request: Request) -> Response:
        """List one's own key pairs; paged from 2.35."""
        self._check_user(request.query_params.get("user_id"))
        page = read_page(request)
        paged = self.microversion >= (2, 35)
        found = selectors.key_pairs_for(
            self.context, limit=page.limit if paged else None, marker=page.marker if paged else None
        )
        answer: dict[str, Any] = {"keypairs": [{"keypair": self.shape(row)} for row in found]}
        if paged:
            following = next_links(request, page, [row.name for row in found], f"{self.base}/os-keypairs")
            if following:
                answer["keypairs_links"] = following
        return Response(answer)

    def post(self, request: Request) -> Response:
        """Import a public key, or make a pair: the private half is in this answer and nowhere else."""
        given = self.body(_create_schema(self.microversion))["keypair"]
        self._check_user(given.get("user_id"))
        row, private_key = services.create_key_pair(
            self.context,
            given["name"],
            public_key=given.get("public_key"),
            type=given.get("type", "ssh"),
            algorithm=given.get("novella:algorithm", "ed25519"),
        )
        shape = self.shape(row) | {"user_id": row.user_id.hex}
        if private_key is not None:
            shape["private_key"] = private_key
        return Response({"keypair": shape}, status=201 if self.microversion >= (2, 2) else 200)

    def shape(self, row: KeyPair) -> dict[str, Any]:
        """What every answer has of a key pair."""
        shape: dict[str, Any] = {"name": row.name, "public_key": row.public_key, "fingerprint": row.fingerprint}
        if self.microversion >= (2, 2):
            shape["type"] = row.type
        return shape

    def _check_user(self, user_id: str | None) -> None:
        """Other users' keys belong to identity's operators; here everybody has their own."""
        if user_id and read_id(user_id) != self.context.user_id:
            raise ForbiddenError("Policy doesn't allow compute:keypairs:other_users to be performed.")


class KeyPairView(KeyPairsView):
    """``GET`` and ``DELETE /os-keypairs/{name}``."""

    http_method_names = ["get", "head", "delete"]
    rules = {
        "GET": "compute:keypairs:show",
        "POST": "compute:keypairs:create",
        "DELETE": "compute:keypairs:delete",
    }

    def get(self, request: Request, name: str = "") -> Response:
        """Show one key pair."""
        self._check_user(request.query_params.get("user_id"))
        row = selectors.key_pair_for(self.context, name)
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
        self._check_user(request.query_params.get("user_id"))
        services.delete_key_pair(self.context, name)
        return Response(status=204 if self.microversion >= (2, 2) else 202)
