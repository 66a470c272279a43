"""Quota sets and quota class sets (Compute API reference, "Quota sets", "Quota class sets")."""

import uuid
from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.quotas import schemas as quota_schemas
from portal.api.compute.quotas.schemas import class_resources_of, resources_of
from portal.api.compute.schemas import boolean, last
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import read_id
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.quotas import selectors
from provisioning.quotas.services.limits import reset_limits, set_limits


def known_project(context: RequestContext, text: str) -> uuid.UUID:
    """Return the id of a project that there is; raises InvalidInputError, as Nova, for any other text."""
    project = read_id(text)
    if project is None or (project != context.project_id and project not in projects_by_id([project])):
        raise InvalidInputError(f"Project ID {text[:64]} is not a valid project.", field="project_id")
    return project


class QuotaSetBase(ComputeView):
    """What the views of one project's quotas share."""

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self.kwargs.get("project_id", "")}

    def project(self, project_id: str) -> uuid.UUID:
        return known_project(self.context, project_id)

    def refuse_user(self) -> None:
        """Refuse to change what there is not: this cloud has quotas of projects only."""
        if any(self.checked_query().get("user_id", ())):
            raise InvalidInputError(
                "Quotas of single users are not supported; change the project's, without user_id.", field="user_id"
            )


class QuotaSetView(QuotaSetBase):
    """``GET``, ``PUT`` and ``DELETE /os-quota-sets/{project}``."""

    rules = {
        "GET": "os_compute_api:os-quota-sets:show",
        "PUT": "os_compute_api:os-quota-sets:update",
        "DELETE": "os_compute_api:os-quota-sets:delete",
    }
    schemas = {"PUT": quota_schemas.quota_set}
    queries = dict.fromkeys(("GET", "PUT", "DELETE"), quota_schemas.of_user)

    def get(self, request: Request, project_id: str) -> Response:
        """The project's limits; with ``user_id`` the same, for no user has others."""
        self.checked_query()
        project = self.project(project_id)
        shape = shape_of(selectors.limits_of(project), self.microversion)
        return Response({"quota_set": {"id": project.hex, **shape}})

    def put(self, request: Request, project_id: str) -> Response:
        """Set some limits, none of them below what is used unless ``force``; the answer has no id, as in Nova."""
        self.refuse_user()
        asked = self.checked_body()["quota_set"]
        project = self.project(project_id)
        force = boolean(asked.pop("force", False))
        set_limits(project, read_limits(asked, resources_of(self.microversion)), force=force)
        return Response({"quota_set": shape_of(selectors.limits_of(project), self.microversion)})

    def delete(self, request: Request, project_id: str) -> Response:
        """Give the project the defaults again."""
        self.refuse_user()
        reset_limits(self.project(project_id), resources_of(self.microversion).values())
        return Response(status=202)


class QuotaSetDefaultsView(QuotaSetBase):
    """``GET /os-quota-sets/{project}/defaults``."""

    rules = {"GET": "os_compute_api:os-quota-sets:defaults"}

    def get(self, request: Request, project_id: str) -> Response:
        """What a project has without quotas of its own."""
        project = self.project(project_id)
        shape = shape_of(selectors.default_limits(), self.microversion)
        return Response({"quota_set": {"id": project.hex, **shape}})


class QuotaSetDetailView(QuotaSetBase):
    """``GET /os-quota-sets/{project}/detail``."""

    rules = {"GET": "os_compute_api:os-quota-sets:detail"}
    queries = {"GET": quota_schemas.of_user}

    def get(self, request: Request, project_id: str) -> Response:
        """Limits, what is in use and what is reserved; ``user_id`` shows that user's key pairs."""
        project = self.project(project_id)
        found = selectors.detail_of(project)
        user = read_id(last(self.checked_query(), "user_id"))
        if user is not None:
            keys = selectors.detail_of(user)["key_pairs"]
            found["key_pairs"] = keys._replace(limit=found["key_pairs"].limit)
        names = resources_of(self.microversion)
        shape: dict[str, Any] = {name: found[resource]._asdict() for name, resource in names.items()}
        return Response({"quota_set": {"id": project.hex, **shape}})


class QuotaClassSetView(ComputeView):
    """``GET`` and ``PUT /os-quota-class-sets/{class}``: the defaults of the cloud, its only class."""

    rules = {"GET": "os_compute_api:os-quota-class-sets:show", "PUT": "os_compute_api:os-quota-class-sets:update"}
    schemas = {"PUT": quota_schemas.quota_class_set}

    def get(self, request: Request, class_name: str) -> Response:
        """The limits of projects that have none of their own; every class has the same."""
        return Response({"quota_class_set": {"id": class_name[:255], **self._shape()}})

    def put(self, request: Request, class_name: str) -> Response:
        """Change some of them; the answer has no id, as in Nova."""
        asked = self.checked_body()["quota_class_set"]
        if class_name != "default":
            raise InvalidInputError("There is no quota class but 'default'.", field="quota_class_name")
        set_limits(None, read_limits(asked, self._names()))
        return Response({"quota_class_set": self._shape()})

    def _names(self) -> dict[str, str]:
        return class_resources_of(self.microversion)

    def _shape(self) -> dict[str, int]:
        limits = selectors.default_limits()
        return {name: limits[resource] for name, resource in self._names().items()}


def shape_of(limits: dict[str, int], microversion: tuple[int, int]) -> dict[str, int]:
    """Write limits under the names and in the selection of the version."""
    return {name: limits[resource] for name, resource in resources_of(microversion).items()}


def read_limits(asked: dict[str, Any], names: Mapping[str, str]) -> dict[str, int | None]:
    """Read limits by their names in the API."""
    return {names.get(name, name): int(limit) for name, limit in asked.items()}
