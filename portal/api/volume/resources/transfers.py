"""Transfers of volumes (reference, "Volume transfers", "Volume transfer"), as ``volume-transfers`` from 3.55 on."""

from dataclasses import replace

from portal.api.frame import Attribute, Call, Filter, Json, Operation, Values, body, identity, parts
from portal.api.volume.dialect import LINKS, Resource, ResourceView, VolumeView, kinds, listing, schemas
from provisioning.volumes.selectors.copies import transfer_for, visible_transfers
from provisioning.volumes.services.updates.transfers import accept_transfer, create_transfer, delete_transfer

_SUMMARY = (
    Attribute("id", kinds.ID),
    Attribute("volume_id", kinds.ID, post=True, required=True),
    Attribute("name", kinds.NAME, post=True),
    LINKS,
)


def _create(view: ResourceView, values: Values) -> Json:
    made, key = create_transfer(view.context, **values, encrypted_too=view.microversion >= (3, 70))
    [shape] = view.shapes([made])
    return {"transfer": shape | {"auth_key": key}}


def _delete(view: ResourceView, identity: str) -> None:
    delete_transfer(view.context, identity)


OLD_TRANSFER = Resource(
    name="transfer",
    path="os-volume-transfer",
    list=Operation(visible_transfers, "volume:get_all_transfers", "List the project's transfers."),
    show=Operation(transfer_for, "volume:get_transfer", "Show a transfer of a volume."),
    create=Operation(
        _create, "volume:create_transfer", "Create a transfer of a volume; only this response contains the key."
    ),
    delete=Operation(_delete, "volume:delete_transfer", "Delete a transfer of a volume."),
    short=_SUMMARY,
    attributes=(
        *_SUMMARY,
        Attribute("created_at", kinds.TIME),
        Attribute("no_snapshots", kinds.BOOLEAN, post=True, since=(3, 55)),
        Attribute("source_project_id", kinds.PROJECT, since=(3, 57)),
        Attribute("destination_project_id", kinds.PROJECT, since=(3, 57)),
        Attribute("accepted", kinds.BOOLEAN, since=(3, 57)),
    ),
    lists=listing.Lists(
        filters=(Filter("id", read=identity), Filter("name"), Filter("volume_id", read=identity)),
        sort={"id": "id", "name": "name", "created_at": "created_at"},
        strict=False,
    ),
)
TRANSFER = replace(OLD_TRANSFER, path="volume-transfers", since=(3, 55))

_ACCEPT = Call(
    lambda context, identity, body: accept_transfer(context, identity, body["auth_key"]),
    "volume:accept_transfer",
    "Accept a transfer, with its key.",
    name="transfer",
    shape=lambda view, made: view.shapes([made], _SUMMARY)[0],
    status=202,
    body=body("accept", {"auth_key": schemas.ID}, ("auth_key",)),
)
OLD_ACCEPT = parts(ResourceView, "accept", {"POST": _ACCEPT}, resource=OLD_TRANSFER, arguments=VolumeView.arguments)
ACCEPT = parts(
    ResourceView,
    "accept",
    {"POST": replace(_ACCEPT, since=(3, 55))},
    resource=TRANSFER,
    arguments=VolumeView.arguments,
)
