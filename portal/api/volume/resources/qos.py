"""QoS specs (Block Storage API v3 reference, "Quality of service (QoS) specifications (qos-specs)")."""

from collections.abc import Mapping
from typing import Any

from portal.api.frame import Attribute, Call, Checked, Json, Operation, Schema, Values, body, inner, parts
from portal.api.volume import dialect
from portal.api.volume.dialect import kinds, listing, schemas
from provisioning.common.errors import InvalidInputError
from provisioning.volumes.models import QosSpec, VolumeType
from provisioning.volumes.selectors import offers
from provisioning.volumes.selectors.types import type_for
from provisioning.volumes.services.catalogue import qos as services

_CONSUMER = Checked({"enum": ["front-end", "back-end", "both"]})
_KEYS: Schema = {r"^(?!name\Z|consumer\Z)[a-zA-Z0-9_.:\- ]{1,255}\Z": schemas.TEXT}

_NAMES: Schema = {"type": "array", "items": schemas.TEXT | {"minLength": 1}, "minItems": 1, "maxItems": 100}


def _body(properties: Mapping[str, Schema], **limits: Any) -> Schema:
    """Return the schema of a body that has its specs next to the attributes."""
    found = body("qos_specs", properties)
    found["properties"]["qos_specs"] |= {"patternProperties": _KEYS, **limits}
    return found


class Resource(dialect.Resource):
    """A resource with its links next to the object in responses."""

    def envelope(self, view: Any, shape: Mapping[str, Any]) -> Json:
        return {self.name: shape, "links": view.links(f"{self.path}/{shape['id']}")}


def _create(view: dialect.VolumeView, values: Values) -> QosSpec:
    return services.create_qos_spec(values.pop("name"), values.pop("consumer"), values)


def _update(view: dialect.VolumeView, identity: str, values: Values) -> Json:
    services.update_qos_spec(offers.qos_spec(identity), values)
    return {"qos_specs": values}


def _delete(view: dialect.VolumeView, identity: str) -> None:
    force = schemas.asked_for(view.request, "force")
    services.delete_qos_spec(offers.qos_spec(identity), force=force)


QOS = Resource(
    name="qos_specs",
    plural="qos_specs",
    path="qos-specs",
    parameter="qos_id",
    list=Operation(
        lambda context, **_: offers.qos_specs(), "volume_extension:qos_specs_manage:get_all", "List QoS specs."
    ),
    show=Operation(
        lambda context, identity: offers.qos_spec(identity), "volume_extension:qos_specs_manage:get", "Show a QoS spec."
    ),
    create=Operation(
        _create,
        "volume_extension:qos_specs_manage:create",
        "Create a QoS spec.",
        status=200,
        body=_body({"name": kinds.NEW_NAME.schema, "consumer": _CONSUMER.schema}, required=["name"]),
    ),
    update=Operation(
        _update,
        "volume_extension:qos_specs_manage:update",
        "Add or update keys.",
        body=_body({"consumer": _CONSUMER.schema}, minProperties=1),
    ),
    delete=Operation(
        _delete,
        "volume_extension:qos_specs_manage:delete",
        "Delete a QoS spec without volume types; ``force=True`` disassociates them first.",
    ),
    attributes=(
        Attribute("id", kinds.ID),
        Attribute("name", kinds.NEW_NAME, post=True),
        Attribute("consumer", _CONSUMER, post=True, default="back-end"),
        Attribute("specs", kinds.SPECS),
    ),
    lists=listing.Lists(
        filters=(),
        sort={"id": "id", "name": "name", "created_at": "created_at", "consumer": "consumer"},
        strict=False,
    ),
)


def _named(view: dialect.ResourceView) -> dict[str, VolumeType]:
    """Return the volume type in the query as an argument. Raises InvalidInputError without one."""
    named = view.request.query_params.get("vol_type_id")
    if not named:
        raise InvalidInputError("Volume Type id must not be None.", field="vol_type_id")
    return {"volume_type": type_for(view.context, named)}


def _associations(view: dialect.ResourceView, row: QosSpec) -> list[dict[str, str]]:
    types = row.types.order_by("name")
    return [{"association_type": "volume_type", "name": each.name, "id": str(each.id)} for each in types]


_UPDATE = "volume_extension:qos_specs_manage:update"
PARTS = parts(
    dialect.ResourceView,
    "",
    {
        "PUT delete_keys": Call(
            services.delete_keys,
            "volume_extension:qos_specs_manage:delete",
            "Delete keys of a QoS spec.",
            status=202,
            body=inner({"keys": _NAMES}, ("keys",)),
        ),
        "GET associations": Call(
            lambda row: row,
            "volume_extension:qos_specs_manage:get_all",
            "List the associated volume types.",
            name="qos_associations",
            shape=_associations,
        ),
        "GET associate": Call(services.associate, _UPDATE, "Associate it with a volume type.", status=202, more=_named),
        "GET disassociate": Call(
            services.disassociate, _UPDATE, "Disassociate it from a volume type.", status=202, more=_named
        ),
        "GET disassociate_all": Call(
            services.disassociate, _UPDATE, "Disassociate it from all volume types.", status=202
        ),
    },
    resource=QOS,
)
"""Association and disassociation are a GET, as in Cinder."""
