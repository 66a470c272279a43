"""Default volume types of projects (reference, "Default Volume Types"), from 3.62 on."""

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.frame.schemas import body
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.schemas import ID
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.volumes.models import DefaultType
from provisioning.volumes.selectors.offers import default_type_record, default_types
from provisioning.volumes.selectors.types import type_for
from provisioning.volumes.services.catalogue import types as services

SINCE = ((3, 62), NEWEST)


def _shape(found: DefaultType) -> dict[str, Any]:
    return {"project_id": found.project_id.hex, "volume_type_id": str(found.volume_type_id)}


def known_project(text: str) -> uuid.UUID:
    """Return the id of an existing project; NotFoundError."""
    project = read_id(text)
    if project is None or project not in projects_by_id([project]):
        raise NotFoundError(f"Project {text[:64]} could not be found.")
    return project


class DefaultTypesView(VolumeView):
    """``GET /default-types``."""

    rules = {"GET": "volume_extension:default_get_all"}
    versions = {"GET": SINCE}

    def get(self, request: Request) -> Response:
        """List the projects with a default volume type of their own."""
        return Response({"default_types": [_shape(found) for found in default_types()]})


class DefaultTypeView(VolumeView):
    """``GET``, ``PUT`` and ``DELETE /default-types/{project_id}``."""

    rules = {
        "GET": "volume_extension:default_get",
        "PUT": "volume_extension:default_set_or_update",
        "DELETE": "volume_extension:default_unset",
    }
    versions = dict.fromkeys(("GET", "PUT", "DELETE"), SINCE)
    schemas = {"PUT": body("default_type", {"volume_type": ID}, ("volume_type",))}

    def get(self, request: Request, project_id: str) -> Response:
        """Show the project's default volume type."""
        return Response({"default_type": _shape(default_type_record(known_project(project_id)))})

    def put(self, request: Request, project_id: str) -> Response:
        """Set the project's default volume type."""
        named = self.checked_body()["default_type"]["volume_type"]
        project = known_project(project_id)
        try:
            found = type_for(self.context, named)
        except NotFoundError as error:
            raise InvalidInputError(error.message, field="volume_type") from None
        return Response({"default_type": _shape(services.set_default_type(project, found))})

    def delete(self, request: Request, project_id: str) -> Response:
        """Remove the project's default volume type."""
        services.unset_default_type(known_project(project_id))
        return Response(status=204)
