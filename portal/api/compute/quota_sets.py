"""Quota sets and quota class sets (Compute API reference, "Quota sets", "Quota class sets")."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute import quota_schemas
from portal.api.compute.quota_schemas import CLASS_ONLY, FIXED_IPS, resources_of
from portal.api.compute.views import ComputeView
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import read_id
from provisioning.identity import selectors as identity
from provisioning.quotas import selectors, services


def known_project(context: RequestContext, text: str) -> uuid.UUID:
    """Return the id of a project that there is; raises InvalidInputError, as Nova, for any other text."""
    project = read_id(text)
    if project is None or (project != context.project_id and project not in identity.projects_by_id([project])):
        raise InvalidInputError(f"Project ID {text[:64]} is not a valid project.", field="project_id")
    return project


class QuotaSetBase(ComputeView):
    """What the views of one project's quotas share."""

    def policy_target(self) -> dict[str, object]:
        """Whose quotas they are."""
        return {"project_id": self.kwargs.get("project_id", "")}

    def project(self, project_id: str) -> uuid.UUID:
        """Return the project in question."""
        return known_project(self.context, project_id)

    def refuse_user(self, request: Request) -> None:
        """Refuse to change what there is not: this cloud has quotas of projects only."""
        if request.query_params.get("user_id"):
            raise InvalidInputError(
                "Quotas of single users are not supported; change the project's, without user_id.", field="user_id"
            )


class QuotaSetView(QuotaSetBase):
    """``GET``, ``PUT`` and ``DELETE /os-quota-sets/{project}``."""

    rules = {
        "GET": "compute:quotas:show",
        "PUT": "compute:quotas:update",
        "DELETE": "compute:quotas:delete",
    }

    def get(self, request: Request, project_id: str) -> Response:
        """The project's limits; with ``user_id`` the same, for no user has others."""
        project = self.project(project_id)
        shape = shape_of(selectors.limits_of(project), self.microversion)
        return Response({"quota_set": {"id": project.hex, **shape}})

    def put(self, request: Request, project_id: str) -> Response:
        """Set some limits, none of them below what is used unless ``force``; the answer has no id, as in Nova."""
        self.refuse_user(request)
        asked = self.body(quota_schemas.quota_set(self.microversion))["quota_set"]
        project = self.project(project_id)
        force = quota_schemas.boolean(asked.pop("force", False))
        services.set_limits(project, read_limits(asked, self.microversion), force=force)
        return Response({"quota_set": shape_of(selectors.limits_of(project), self.microversion)})

    def delete(self, request: Request, project_id: str) -> Response:
        """Give the project the defaults again."""
        self.refuse_user(request)
        services.reset_limits(self.project(project_id), resources_of(self.microversion).values())
        return Response(status=202)


class QuotaSetDefaultsView(QuotaSetBase):
    """``GET /os-quota-sets/{project}/defaults``."""

    rules = {"GET": "compute:quotas:defaults"}

    def get(self, request: Request, project_id: str) -> Response:
        """What a project has without quotas of its own."""
        project = self.project(project_id)
        shape = shape_of(selectors.default_limits(), self.microversion)
        return Response({"quota_set": {"id": project.hex, **shape}})


class QuotaSetDetailView(QuotaSetBase):
    """``GET /os-quota-sets/{project}/detail``."""

    rules = {"GET": "compute:quotas:show:detail"}

    def get(self, request: Request, project_id: str) -> Response:
        """Limits, what is in use and what is reserved; ``user_id`` shows that user's key pairs."""
        project = self.project(project_id)
        found = selectors.detail_of(project)
        user = read_id(request.query_params.get("user_id"))
        if user is not None:
            keys = selectors.detail_of(user)["key_pairs"]
            found["key_pairs"] = keys._replace(limit=found["key_pairs"].limit)
        names = resources_of(self.microversion)
        shape: dict[str, Any] = {name: found[resource]._asdict() for name, resource in names.items()}
        if self.microversion < (2, 36):
            shape[FIXED_IPS] = {"limit": -1, "in_use": 0, "reserved": 0}
        return Response({"quota_set": {"id": project.hex, **shape}})


class QuotaClassSetView(ComputeView):
    """``GET`` and ``PUT /os-quota-class-sets/default``: the defaults of the cloud, the only class there is."""

    rules = {"GET": "compute:quota_classes:show", "PUT": "compute:quota_classes:update"}

    def get(self, request: Request) -> Response:
        """The limits of projects that have none of their own."""
        return Response({"quota_class_set": {"id": "default", **self._shape()}})

    def put(self, request: Request) -> Response:
        """Change some of them; the answer has no id, as in Nova."""
        asked = self.body(quota_schemas.quota_class_set(self.microversion))["quota_class_set"]
        services.set_limits(None, read_limits(asked, self.microversion))
        return Response({"quota_class_set": self._shape()})

    def _shape(self) -> dict[str, int]:
        limits = selectors.default_limits()
        return shape_of(limits, self.microversion) | {name: limits[name] for name in CLASS_ONLY}


def shape_of(limits: dict[str, int], microversion: tuple[int, int]) -> dict[str, int]:
    """Write limits under the names and in the selection of the version."""
    shape = {name: limits[resource] for name, resource in resources_of(microversion).items()}
    return shape | ({FIXED_IPS: -1} if microversion < (2, 36) else {})


def read_limits(asked: dict[str, Any], microversion: tuple[int, int]) -> dict[str, int | None]:
    """Read limits by their names in the API; ``fixed_ips`` is what it always is: unlimited."""
    names = resources_of(microversion) | {name: name for name in CLASS_ONLY}
    if int(asked.get(FIXED_IPS, -1)) != -1:
        raise InvalidInputError("fixed_ips cannot be limited here: limit ports instead.", field=FIXED_IPS)
    return {names[name]: int(limit) for name, limit in asked.items() if name != FIXED_IPS}
