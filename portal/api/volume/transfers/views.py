"""Transfers of volumes (reference, "Volume transfers", "Volume transfer"), as ``volume-transfers`` from 3.55 on."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST, Version
from portal.api.common.validation import Schema
from portal.api.frame.schemas import body
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import listing
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import BOOLEAN, ID, NAME, boolean, text_of
from portal.api.volume.dialect.times import timestamp
from portal.api.volume.dialect.views import ListingView
from provisioning.volumes.models import Transfer
from provisioning.volumes.selectors.transfers import transfer_for, visible_transfers
from provisioning.volumes.services.transfers import accept_transfer, create_transfer, delete_transfer

WITH_SNAPSHOTS = ((3, 55), NEWEST)


def _create(version: Version) -> Schema:
    properties: dict[str, Schema] = {"volume_id": ID, "name": NAME}
    if version >= WITH_SNAPSHOTS[0]:
        properties["no_snapshots"] = BOOLEAN
    return body("transfer", properties, ("volume_id",))


class TransferBase(VolumeView):
    """Base of the transfer views."""

    place = "os-volume-transfer"

    def summary(self, found: Transfer) -> dict[str, Any]:
        return {
            "id": str(found.id),
            "volume_id": str(found.volume_id),
            "name": found.name,
            "links": self.links(f"{self.place}/{found.id}"),
        }

    def shape(self, found: Transfer) -> dict[str, Any]:
        shown = self.summary(found) | {"created_at": timestamp(found.created_at)}
        if self.microversion >= (3, 55):
            shown["no_snapshots"] = found.no_snapshots
        if self.microversion >= (3, 57):
            there = found.destination_project_id
            shown |= {
                "source_project_id": found.source_project_id.hex,
                "destination_project_id": there.hex if there else None,
                "accepted": found.accepted,
            }
        return shown


class TransfersView(TransferBase, ListingView):
    """``GET`` and ``POST /os-volume-transfer``."""

    rules = {"GET": "volume:get_all_transfers", "POST": "volume:create_transfer"}
    schemas = {"POST": _create}
    path = "os-volume-transfer"
    lists = Lists(
        plural="transfers",
        filters={
            "id": listing.identity("id"),
            "name": listing.text("name"),
            "volume_id": listing.identity("volume_id"),
        },
        sort={"id": "id", "name": "name", "created_at": "created_at"},
        strict=False,
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List the project's transfers."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[Transfer]:
        return visible_transfers(self.context, all_projects=all_projects)

    def shapes(self, rows: list[Transfer]) -> list[dict[str, Any]]:
        return [self.summary(row) for row in rows]

    def post(self, request: Request) -> Response:
        """Create a transfer of a volume; only this response contains the key."""
        asked = self.checked_body()["transfer"]
        made, key = create_transfer(
            self.context,
            asked["volume_id"],
            text_of(asked, "name"),
            no_snapshots=boolean(asked.get("no_snapshots", False)),
            encrypted_too=self.microversion >= (3, 70),
        )
        return Response({"transfer": self.shape(made) | {"auth_key": key}}, status=202)


class TransfersDetailView(TransfersView):
    """``GET /os-volume-transfer/detail``."""

    rules = {"GET": "volume:get_all_transfers"}
    path = "os-volume-transfer/detail"
    http_method_names = ["get", "head"]

    def get(self, request: Request) -> Response:
        """List transfers with all their attributes."""
        return self.listed(request)

    def shapes(self, rows: list[Transfer]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]


class TransferView(TransferBase):
    """``GET`` and ``DELETE /os-volume-transfer/{id}``."""

    rules = {"GET": "volume:get_transfer", "DELETE": "volume:delete_transfer"}

    def get(self, request: Request, transfer_id: str) -> Response:
        """Show a transfer of a volume."""
        return Response({"transfer": self.shape(transfer_for(self.context, transfer_id))})

    def delete(self, request: Request, transfer_id: str) -> Response:
        """Delete a transfer of a volume."""
        delete_transfer(self.context, transfer_id)
        return self.accepted()


class TransferAcceptView(TransferBase):
    """``POST /os-volume-transfer/{id}/accept``."""

    rules = {"POST": "volume:accept_transfer"}
    schemas = {"POST": body("accept", {"auth_key": ID}, ("auth_key",))}

    def post(self, request: Request, transfer_id: str) -> Response:
        """Accept a transfer, with its key."""
        key = self.checked_body()["accept"]["auth_key"]
        return Response({"transfer": self.summary(accept_transfer(self.context, transfer_id, key))}, status=202)


class NewTransfersView(TransfersView):
    """``GET`` and ``POST /volume-transfers``, from 3.55 on."""

    place = path = "volume-transfers"
    versions = dict.fromkeys(("GET", "POST"), WITH_SNAPSHOTS)


class NewTransfersDetailView(TransfersDetailView):
    """``GET /volume-transfers/detail``, from 3.55 on."""

    place, path = "volume-transfers", "volume-transfers/detail"
    versions = {"GET": WITH_SNAPSHOTS}


class NewTransferView(TransferView):
    """``GET`` and ``DELETE /volume-transfers/{id}``, from 3.55 on."""

    place = "volume-transfers"
    versions = dict.fromkeys(("GET", "DELETE"), WITH_SNAPSHOTS)


class NewTransferAcceptView(TransferAcceptView):
    """``POST /volume-transfers/{id}/accept``, from 3.55 on."""

    place = "volume-transfers"
    versions = {"POST": WITH_SNAPSHOTS}
