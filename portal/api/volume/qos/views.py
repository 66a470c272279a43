"""QoS specs (Block Storage API v3 reference, "Quality of service (QoS) specifications (qos-specs)")."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import NEW_NAME, SPECS, TEXT, asked_for
from portal.api.volume.dialect.views import ListingView
from provisioning.common.errors import InvalidInputError
from provisioning.volumes.models import QosSpec, VolumeType
from provisioning.volumes.selectors import offers
from provisioning.volumes.selectors.types import type_for
from provisioning.volumes.services import qos as services

_CONSUMER: Schema = {"enum": ["front-end", "back-end", "both"]}
_KEYS = SPECS["patternProperties"]
CREATE: Schema = {
    "type": "object",
    "properties": {
        "qos_specs": {
            "type": "object",
            "properties": {"name": NEW_NAME, "consumer": _CONSUMER},
            "patternProperties": {r"^(?!name\Z|consumer\Z)[a-zA-Z0-9_.:\- ]{1,255}\Z": TEXT | {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
    "required": ["qos_specs"],
    "additionalProperties": False,
}
UPDATE: Schema = {
    "type": "object",
    "properties": {
        "qos_specs": {
            "type": "object",
            "properties": {"consumer": _CONSUMER},
            "patternProperties": {r"^(?!name\Z|consumer\Z)[a-zA-Z0-9_.:\- ]{1,255}\Z": TEXT},
            "minProperties": 1,
            "additionalProperties": False,
        }
    },
    "required": ["qos_specs"],
    "additionalProperties": False,
}
DELETE_KEYS: Schema = {
    "type": "object",
    "properties": {"keys": {"type": "array", "items": TEXT | {"minLength": 1}, "minItems": 1, "maxItems": 100}},
    "required": ["keys"],
    "additionalProperties": False,
}


class QosBase(VolumeView):
    """Base of the QoS spec views."""

    def shape(self, spec: QosSpec) -> dict[str, Any]:
        return {"id": str(spec.id), "name": spec.name, "consumer": spec.consumer, "specs": spec.specs}

    def answer(self, spec: QosSpec) -> Response:
        return Response({"qos_specs": self.shape(spec), "links": self.links(f"qos-specs/{spec.id}")})

    def named_type(self) -> VolumeType:
        """Return the volume type in the query; InvalidInputError without one."""
        named = self.request.query_params.get("vol_type_id")
        if not named:
            raise InvalidInputError("Volume Type id must not be None.", field="vol_type_id")
        return type_for(self.context, named)


class QosSpecsView(QosBase, ListingView):
    """``GET`` and ``POST /qos-specs``."""

    rules = {
        "GET": "volume_extension:qos_specs_manage:get_all",
        "POST": "volume_extension:qos_specs_manage:create",
    }
    schemas = {"POST": CREATE}
    path = "qos-specs"
    lists = Lists(
        plural="qos_specs",
        filters={},
        sort={"id": "id", "name": "name", "created_at": "created_at", "consumer": "consumer"},
        strict=False,
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List QoS specs."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[QosSpec]:
        return offers.qos_specs()

    def shapes(self, rows: list[QosSpec]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]

    def post(self, request: Request) -> Response:
        """Create a QoS spec."""
        asked = dict(self.checked_body()["qos_specs"])
        name, consumer = asked.pop("name").strip(), asked.pop("consumer", "back-end")
        return self.answer(services.create_qos_spec(name, consumer, asked))


class QosSpecView(QosBase):
    """``GET``, ``PUT`` and ``DELETE /qos-specs/{id}``."""

    rules = {
        "GET": "volume_extension:qos_specs_manage:get",
        "PUT": "volume_extension:qos_specs_manage:update",
        "DELETE": "volume_extension:qos_specs_manage:delete",
    }
    schemas = {"PUT": UPDATE}

    def get(self, request: Request, qos_id: str) -> Response:
        """Show a QoS spec."""
        return self.answer(offers.qos_spec(qos_id))

    def put(self, request: Request, qos_id: str) -> Response:
        """Add or update keys."""
        asked = self.checked_body()["qos_specs"]
        services.update_qos_spec(offers.qos_spec(qos_id), asked)
        return Response({"qos_specs": asked})

    def delete(self, request: Request, qos_id: str) -> Response:
        """Delete a QoS spec without volume types; ``force=True`` disassociates them first."""
        force = asked_for(request, "force")
        services.delete_qos_spec(offers.qos_spec(qos_id), force=force)
        return self.accepted()


class QosKeysView(QosBase):
    """``PUT /qos-specs/{id}/delete_keys``."""

    rules = {"PUT": "volume_extension:qos_specs_manage:delete"}
    schemas = {"PUT": DELETE_KEYS}

    def put(self, request: Request, qos_id: str) -> Response:
        """Delete keys of a QoS spec."""
        keys = self.checked_body()["keys"]
        services.delete_keys(offers.qos_spec(qos_id), keys)
        return self.accepted()


class QosAssociationsView(QosBase):
    """``GET /qos-specs/{id}/associations``."""

    rules = {"GET": "volume_extension:qos_specs_manage:get_all"}

    def get(self, request: Request, qos_id: str) -> Response:
        """List the associated volume types."""
        types = offers.qos_spec(qos_id).types.order_by("name")
        found = [{"association_type": "volume_type", "name": each.name, "id": str(each.id)} for each in types]
        return Response({"qos_associations": found})


class QosAssociateView(QosBase):
    """``GET /qos-specs/{id}/associate?vol_type_id={id}``: a GET, as in Cinder."""

    rules = {"GET": "volume_extension:qos_specs_manage:update"}

    def get(self, request: Request, qos_id: str) -> Response:
        """Associate it with a volume type."""
        services.associate(offers.qos_spec(qos_id), self.named_type())
        return self.accepted()


class QosDisassociateView(QosBase):
    """``GET /qos-specs/{id}/disassociate?vol_type_id={id}``."""

    rules = {"GET": "volume_extension:qos_specs_manage:update"}

    def get(self, request: Request, qos_id: str) -> Response:
        """Disassociate it from a volume type."""
        services.disassociate(offers.qos_spec(qos_id), self.named_type())
        return self.accepted()


class QosDisassociateAllView(QosBase):
    """``GET /qos-specs/{id}/disassociate_all``."""

    rules = {"GET": "volume_extension:qos_specs_manage:update"}

    def get(self, request: Request, qos_id: str) -> Response:
        """Disassociate it from all volume types."""
        services.disassociate(offers.qos_spec(qos_id))
        return self.accepted()
