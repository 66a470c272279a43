"""Parts of volume types: extra specs, access, encryption (reference, "Volume types (types)")."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.frame.schemas import body
from portal.api.volume.dialect.schemas import SPECS, of_metadata
from portal.api.volume.dialect.specs import ITEM, SpecsView, SpecView
from portal.api.volume.dialect.times import timestamp
from portal.api.volume.dialect.views import ResourceView
from portal.api.volume.types.resource import TYPE, visible_specs
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.volumes.models import VolumeType
from provisioning.volumes.selectors.offers import projects_with_access
from provisioning.volumes.services.catalogue import types as services

_SIZE: Schema = {"type": ["integer", "string", "null"], "pattern": r"^[0-9]{1,6}\Z", "minimum": 0, "maximum": 100_000}
_TEXT: Schema = {"type": "string", "maxLength": 255, "pattern": r"^[^\x00]*\Z"}
_ENCRYPTION: dict[str, Schema] = {
    "provider": _TEXT,
    "control_location": {"enum": ["front-end", "back-end"]},
    "cipher": _TEXT | {"type": ["string", "null"]},
    "key_size": _SIZE,
}


class ExtraSpecsView(SpecsView):
    """``GET`` and ``POST /types/{id}/extra_specs``."""

    resource = TYPE
    column, change = "extra_specs", services.set_extra_specs
    rules = {"GET": "volume_extension:types_extra_specs:index", "POST": "volume_extension:types_extra_specs:create"}
    schemas = {"POST": of_metadata("extra_specs", SPECS)}
    sentences = {"GET": "List the extra specs that the caller may see.", "POST": "Add or update extra specs."}
    http_method_names = ["get", "head", "post"]

    def specs(self, row: VolumeType) -> dict[str, str]:
        return visible_specs(self, row.extra_specs)


class ExtraSpecView(SpecView, ExtraSpecsView):
    """``GET``, ``PUT`` and ``DELETE /types/{id}/extra_specs/{key}``."""

    remove = services.delete_extra_spec
    missing = "Volume Type {id} has no extra specs with key {key}."
    rules = {
        "GET": "volume_extension:types_extra_specs:show",
        "PUT": "volume_extension:types_extra_specs:update",
        "DELETE": "volume_extension:types_extra_specs:delete",
    }
    schemas = {"PUT": ITEM}
    sentences = {
        "GET": "Show an extra spec of a volume type.",
        "PUT": "Set an extra spec of a volume type.",
        "DELETE": "Delete an extra spec of a volume type.",
    }
    http_method_names = ["get", "head", "put", "delete"]


class AccessView(ResourceView):
    """``GET /types/{id}/os-volume-type-access``."""

    resource = TYPE

    rules = {"GET": "volume_extension:volume_type_access:get_all_for_type"}

    def get(self, request: Request, identity: str) -> Response:
        """List the projects that may use a private type."""
        found = self.row(identity)
        if found.is_public:
            raise NotFoundError("Access list not available for public volume types.")
        projects = projects_with_access(found.id)
        access = [{"volume_type_id": str(found.id), "project_id": project.hex} for project in projects]
        return Response({"volume_type_access": access})


def _asked(body_: dict[str, Any]) -> dict[str, Any]:
    values = dict(body_["encryption"])
    if values.get("key_size") is not None:
        values["key_size"] = int(values["key_size"])
    return values


class EncryptionView(ResourceView):
    """``GET`` and ``POST /types/{id}/encryption``."""

    resource = TYPE

    rules = {
        "GET": "volume_extension:volume_type_encryption:get",
        "POST": "volume_extension:volume_type_encryption:create",
    }
    schemas = {"POST": body("encryption", _ENCRYPTION, ("provider", "control_location"))}

    def get(self, request: Request, identity: str) -> Response:
        """Show the encryption settings; an empty object without encryption."""
        return Response(self._shape(self.row(identity)))

    def _shape(self, found: VolumeType) -> dict[str, Any]:
        encryption = getattr(found, "encryption", None)
        if encryption is None:
            return {}
        return {
            "volume_type_id": str(found.id),
            "encryption_id": str(encryption.id),
            "provider": encryption.provider,
            "cipher": encryption.cipher,
            "key_size": encryption.key_size,
            "control_location": encryption.control_location,
            "created_at": timestamp(encryption.created_at),
            "updated_at": timestamp(encryption.updated_at),
            "deleted": False,
            "deleted_at": None,
        }

    def post(self, request: Request, identity: str) -> Response:
        """Enable encryption for new volumes."""
        asked = _asked(self.checked_body())
        made = services.create_encryption(self.row(identity), asked)
        shown = {"volume_type_id": str(made.volume_type_id), "encryption_id": str(made.id)}
        return Response({"encryption": shown | asked})


class EncryptionItemView(EncryptionView):
    """``GET /types/{id}/encryption/{key}``; ``PUT`` and ``DELETE /types/{id}/encryption/{encryption_id}``."""

    rules = {
        "GET": "volume_extension:volume_type_encryption:get",
        "PUT": "volume_extension:volume_type_encryption:update",
        "DELETE": "volume_extension:volume_type_encryption:delete",
    }
    schemas = {"PUT": body("encryption", _ENCRYPTION)}
    http_method_names = ["get", "head", "put", "delete"]

    def get(self, request: Request, identity: str, encryption_id: str) -> Response:  # type: ignore[override]
        """Show one value of the encryption."""
        shape = self._shape(self.row(identity))
        if encryption_id not in shape:
            raise NotFoundError(f"Volume type encryption for type {identity[:64]} does not exist.")
        return Response({encryption_id: shape[encryption_id]})

    def put(self, request: Request, identity: str, encryption_id: str) -> Response:
        """Update the encryption settings for new volumes."""
        asked = _asked(self.checked_body())
        services.update_encryption(self._type(identity, encryption_id), asked)
        return Response({"encryption": asked})

    def delete(self, request: Request, identity: str, encryption_id: str) -> Response:
        """Disable encryption for new volumes."""
        services.delete_encryption(self._type(identity, encryption_id))
        return self.accepted()

    def _type(self, identity: str, encryption_id: str) -> VolumeType:
        found: VolumeType = self.row(identity)
        if services.encryption_of(found).id != read_id(encryption_id):
            raise NotFoundError(f"Volume type encryption for type {found.id} does not exist.")
        return found
