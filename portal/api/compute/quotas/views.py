"""Quota sets and quota class sets (Compute API reference, "Quota sets", "Quota class sets")."""

import uuid
from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.quotas import schemas as quota_schemas
from portal.api.compute.quotas.schemas import OF_NETWORKS, class_resources_of, resources_of
from portal.api.compute.schemas import boolean
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import NOBODY, read_id
from provisioning.identity.selectors.lookups import projects_by_id, users_by_id
from provisioning.quotas import selectors
from provisioning.quotas.limits import UNLIMITED
from provisioning.quotas.services.limits import reset_limits, set_limits


def known_project(context: RequestContext, text: str) -> uuid.UUID:
    """Return the id of an existing project; raises InvalidInputError, as Nova does, for any other text."""
    project = read_id(text)
    if project is None or (project != context.project_id and project not in projects_by_id([project])):
        raise InvalidInputError(f"Project ID {text[:64]} is not a valid project.", field="project_id")
    return project


class QuotaSetBase(ComputeView):
    """Base of the views of a project's quotas."""

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self.kwargs.get("project_id", "")}

    def project(self, project_id: str) -> uuid.UUID:
        return known_project(self.context, project_id)

    def user(self) -> uuid.UUID | None:
        """Return the user whose quotas in the project are requested, or None for the quotas of the project.

        An unknown id gives ``NOBODY``, who has the project's limits and uses nothing, as in Nova.
        """
        asked = self.checked_query().get("user_id", [""])[0]
        return (read_id(asked) or NOBODY) if asked else None

    def known_user(self) -> uuid.UUID | None:
        """Return the user whose quotas are to be updated, or None for the project. Raises InvalidInputError if the user
        does not exist.
        """
        user = self.user()
        if user is not None and user != self.context.user_id and user not in users_by_id([user]):
            raise InvalidInputError("The user_id is not that of a user.", field="user_id")
        return user

    def limits(self, project: uuid.UUID, user: uuid.UUID | None) -> dict[str, int]:
        """Return the limits in the version's format: a limit of the user if one is set, otherwise the limit of the
        project.
        """
        bounds = selectors.bounds_of(project, user)
        hidden = hidden_limits(project, self.microversion)
        return shape_of({**bounds.project, **bounds.user}, self.microversion) | hidden


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
        """Show the limits of the project, or with ``user_id`` the limits of one user in it."""
        user = self.user()
        project = self.project(project_id)
        return Response({"quota_set": {"id": project.hex, **self.limits(project, user)}})

    def put(self, request: Request, project_id: str) -> Response:
        """Update limits of the project, or with ``user_id`` of one user in it; the response has no id, as in Nova.

        Unless ``force``, a limit below the usage, or a user's limit above the project's, is refused.
        """
        user = self.known_user()
        asked = self.checked_body()["quota_set"]
        project = self.project(project_id)
        force = boolean(asked.pop("force", False))
        set_limits(project, read_limits(asked, resources_of(self.microversion)), force=force, user_id=user)
        return Response({"quota_set": self.limits(project, user)})

    def delete(self, request: Request, project_id: str) -> Response:
        """Reset the project's limits to the defaults, or with ``user_id`` one user's limits to the project's."""
        user = self.user()
        reset_limits(self.project(project_id), resources_of(self.microversion).values(), user_id=user)
        return Response(status=202)


class QuotaSetDefaultsView(QuotaSetBase):
    """``GET /os-quota-sets/{project}/defaults``."""

    rules = {"GET": "os_compute_api:os-quota-sets:defaults"}

    def get(self, request: Request, project_id: str) -> Response:
        """Show the default limits."""
        project = self.project(project_id)
        hidden = hidden_limits(None, self.microversion)
        shape = shape_of(selectors.default_limits(), self.microversion) | hidden
        return Response({"quota_set": {"id": project.hex, **shape}})


class QuotaSetDetailView(QuotaSetBase):
    """``GET /os-quota-sets/{project}/detail``."""

    rules = {"GET": "os_compute_api:os-quota-sets:detail"}
    queries = {"GET": quota_schemas.of_user}

    def get(self, request: Request, project_id: str) -> Response:
        """Show limits, usage and reservations of the project; with ``user_id`` of one user in the project, including
        key pairs.
        """
        user = self.user()
        project = self.project(project_id)
        found = selectors.detail_of(project) if user is None else selectors.detail_in(project, user)
        if user is not None:
            keys = selectors.detail_of(user)["key_pairs"]
            found["key_pairs"] = keys._replace(limit=found["key_pairs"].limit)
        names = resources_of(self.microversion)
        shape: dict[str, Any] = {name: found[resource]._asdict() for name, resource in names.items()}
        for name, limit in hidden_limits(project, self.microversion).items():
            shape[name]["limit"] = limit
        return Response({"quota_set": {"id": project.hex, **shape}})


class QuotaClassSetView(ComputeView):
    """``GET`` and ``PUT /os-quota-class-sets/{class}``: the defaults of the cloud, its only class."""

    rules = {"GET": "os_compute_api:os-quota-class-sets:show", "PUT": "os_compute_api:os-quota-class-sets:update"}
    schemas = {"PUT": quota_schemas.quota_class_set}

    def get(self, request: Request, class_name: str) -> Response:
        """Show the default limits, which are the same for every class."""
        return Response({"quota_class_set": {"id": class_name[:255], **self._shape()}})

    def put(self, request: Request, class_name: str) -> Response:
        """Update default limits; the response has no id, as in Nova."""
        asked = self.checked_body()["quota_class_set"]
        if class_name != "default":
            raise InvalidInputError("There is no quota class but 'default'.", field="quota_class_name")
        set_limits(None, read_limits(asked, self._names()))
        return Response({"quota_class_set": self._shape()})

    def _names(self) -> dict[str, str]:
        return class_resources_of(self.microversion)

    def _shape(self) -> dict[str, int]:
        limits, names = selectors.default_limits(), self._names()
        hidden = {name: limit for name, limit in hidden_limits(None, (2, 1)).items() if name in names}
        return {name: limits[resource] for name, resource in names.items()} | hidden


def shape_of(limits: dict[str, int], microversion: tuple[int, int]) -> dict[str, int]:
    """Return the limits with the names of the version."""
    return {name: limits[resource] for name, resource in resources_of(microversion).items()}


def hidden_limits(project: uuid.UUID | None, microversion: tuple[int, int]) -> dict[str, int]:
    """Return the network limits that are not set, as API name → -1: the limits of a project, or the default limits if
    ``project`` is None.

    Nova no longer has these limits and shows -1.
    """
    names = {name: resource for name, resource in OF_NETWORKS.items() if name in resources_of(microversion)}
    if not names:
        return {}
    known = selectors.own_limits(None) | (selectors.own_limits(project) if project is not None else {})
    return {name: UNLIMITED for name, resource in names.items() if resource not in known}


def read_limits(asked: dict[str, Any], names: Mapping[str, str]) -> dict[str, int | None]:
    """Return resource → limit for the limits in a body; ``names`` maps names in the API to resources."""
    return {names.get(name, name): int(limit) for name, limit in asked.items()}
