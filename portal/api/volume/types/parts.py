"""Parts of volume types: extra specs, access, encryption (reference, "Volume types (types)")."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.frame.schemas import body, inner
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.actions import Action, actions_schema
from portal.api.volume.dialect.schemas import ID, SPECS, of_metadata
from portal.api.volume.dialect.times import timestamp
from portal.api.volume.dialect.views import ActionsView
from portal.api.volume.types.views import visible_specs
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.volumes.models import VolumeType
from provisioning.volumes.selectors.offers import projects_with_access
from provisioning.volumes.selectors.types import type_for
from provisioning.volumes.services import types as services

_SIZE: Schema = {"type": ["integer", "string", "null"], "pattern": r"^[0-9]{1,6}\Z", "minimum": 0, "maximum": 100_000}
_TEXT: Schema = {"type": "string", "maxLength": 255, "pattern": r"^[^\x00]*\Z"}
_ENCRYPTION: dict[str, Schema] = {
    "provider": _TEXT,
    "control_location": {"enum": ["front-end", "back-end"]},
    "cipher": _TEXT | {"type": ["string", "null"]},
    "key_size": _SIZE,
}


class OfType(VolumeView):
    """Base of the views of a type's parts."""

    def found(self, volume_type_id: str) -> VolumeType:
        return type_for(self.context, volume_type_id)


class ExtraSpecsView(OfType):
    """``GET`` and ``POST /types/{id}/extra_specs``."""

    rules = {"GET": "volume_extension:types_extra_specs:index", "POST": "volume_extension:types_extra_specs:create"}
    schemas = {"POST": of_metadata("extra_specs", SPECS)}

    def get(self, request: Request, volume_type_id: str) -> Response:
        """List the extra specs that the caller may see."""
        return Response({"extra_specs": visible_specs(self, self.found(volume_type_id).extra_specs)})

    def post(self, request: Request, volume_type_id: str) -> Response:
        """Add or update extra specs."""
        specs = self.checked_body()["extra_specs"]
        services.set_extra_specs(self.found(volume_type_id), specs)
        return Response({"extra_specs": specs})


class ExtraSpecView(OfType):
    """``GET``, ``PUT`` and ``DELETE /types/{id}/extra_specs/{key}``."""

    rules = {
        "GET": "volume_extension:types_extra_specs:show",
        "PUT": "volume_extension:types_extra_specs:update",
        "DELETE": "volume_extension:types_extra_specs:delete",
    }
    schemas = {"PUT": SPECS | {"minProperties": 1, "maxProperties": 1}}

    def get(self, request: Request, volume_type_id: str, key: str) -> Response:
        """Show an extra spec of a volume type."""
        found = self.found(volume_type_id)
        specs = visible_specs(self, found.extra_specs)
        if key not in specs:
            raise NotFoundError(f"Volume Type {found.id} has no extra specs with key {key[:64]}.")
        return Response({key: specs[key]})

    def put(self, request: Request, volume_type_id: str, key: str) -> Response:
        """Set an extra spec of a volume type."""
        asked = self.checked_body()
        if key not in asked:
            raise InvalidInputError("Request body and URI mismatch")
        services.set_extra_specs(self.found(volume_type_id), asked)
        return Response(asked)

    def delete(self, request: Request, volume_type_id: str, key: str) -> Response:
        """Delete an extra spec of a volume type."""
        services.delete_extra_spec(self.found(volume_type_id), key)
        return self.accepted()


class AccessView(OfType):
    """``GET /types/{id}/os-volume-type-access``."""

    rules = {"GET": "volume_extension:volume_type_access:get_all_for_type"}

    def get(self, request: Request, volume_type_id: str) -> Response:
        """List the projects that may use a private type."""
        found = self.found(volume_type_id)
        if found.is_public:
            raise NotFoundError("Access list not available for public volume types.")
        projects = projects_with_access(found.id)
        access = [{"volume_type_id": str(found.id), "project_id": project.hex} for project in projects]
        return Response({"volume_type_access": access})


def _change(view: ActionsView, volume_type_id: str, asked: Any, *, add: bool) -> Response:
    project = read_id(asked["project"])
    if project is None:
        raise InvalidInputError(f"Invalid project id {asked['project'][:64]}.", field="project")
    change = services.add_access if add else services.remove_access
    change(type_for(view.context, volume_type_id), project)
    return view.accepted()


_PROJECT = inner({"project": ID}, ("project",))
TYPE_ACTIONS = {
    "addProjectAccess": Action(
        rule="volume_extension:volume_type_access:addProjectAccess",
        act=lambda view, identity, asked: _change(view, identity, asked, add=True),
        schema=_PROJECT,
    ),
    "removeProjectAccess": Action(
        rule="volume_extension:volume_type_access:removeProjectAccess",
        act=lambda view, identity, asked: _change(view, identity, asked, add=False),
        schema=_PROJECT,
    ),
}


class TypeActionView(ActionsView):
    """``POST /types/{id}/action``: grant or revoke a project's access to a type."""

    rules = {"POST": "volume_extension:type_get"}
    action_rules = {name: action.rule for name, action in TYPE_ACTIONS.items()}
    actions = TYPE_ACTIONS
    schemas = {"POST": actions_schema(TYPE_ACTIONS)}

    def post(self, request: Request, volume_type_id: str) -> Response:
        """Grant or revoke a project's access to a type."""
        return self.act(request, volume_type_id)


def _asked(body_: dict[str, Any]) -> dict[str, Any]:
    values = dict(body_["encryption"])
    if values.get("key_size") is not None:
        values["key_size"] = int(values["key_size"])
    return values


class EncryptionView(OfType):
    """``GET`` and ``POST /types/{id}/encryption``."""

    rules = {
        "GET": "volume_extension:volume_type_encryption:get",
        "POST": "volume_extension:volume_type_encryption:create",
    }
    schemas = {"POST": body("encryption", _ENCRYPTION, ("provider", "control_location"))}

    def get(self, request: Request, volume_type_id: str) -> Response:
        """Show the encryption settings; an empty object without encryption."""
        return Response(self._shape(self.found(volume_type_id)))

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

    def post(self, request: Request, volume_type_id: str) -> Response:
        """Enable encryption for new volumes."""
        asked = _asked(self.checked_body())
        made = services.create_encryption(self.found(volume_type_id), asked)
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

    def get(self, request: Request, volume_type_id: str, encryption_id: str) -> Response:  # type: ignore[override]
        """Show one value of the encryption."""
        shape = self._shape(self.found(volume_type_id))
        if encryption_id not in shape:
            raise NotFoundError(f"Volume type encryption for type {volume_type_id[:64]} does not exist.")
        return Response({encryption_id: shape[encryption_id]})

    def put(self, request: Request, volume_type_id: str, encryption_id: str) -> Response:
        """Update the encryption settings for new volumes."""
        asked = _asked(self.checked_body())
        services.update_encryption(self._type(volume_type_id, encryption_id), asked)
        return Response({"encryption": asked})

    def delete(self, request: Request, volume_type_id: str, encryption_id: str) -> Response:
        """Disable encryption for new volumes."""
        services.delete_encryption(self._type(volume_type_id, encryption_id))
        return self.accepted()

    def _type(self, volume_type_id: str, encryption_id: str) -> VolumeType:
        found = self.found(volume_type_id)
        if services.encryption_of(found).id != read_id(encryption_id):
            raise NotFoundError(f"Volume type encryption for type {found.id} does not exist.")
        return found
