"""Quota sets, quota class sets and limits (reference, "Quota sets extension", "Quota class set", "Limits")."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.schemas import BOOLEAN, LIMIT, asked_for, boolean
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import read_id
from provisioning.identity import policy
from provisioning.quotas import selectors
from provisioning.quotas.limits import PER_TYPE, UNLIMITED, VOLUME
from provisioning.quotas.services.limits import reset_limits, set_limits
from provisioning.volumes.selectors.offers import type_names


def _names() -> list[str]:
    """Every quota of Block Storage: the general ones, and three for each volume type."""
    return [*VOLUME, *(f"{kind}{name}" for name in type_names() for kind in PER_TYPE)]


def _write(values: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: values.get(name, UNLIMITED) for name in names}


def _defaults() -> dict[str, int]:
    names = _names()
    return _write(selectors.default_limits(names), names)


def _schema(name: str) -> Schema:
    """Return the schema of a body with limits; those of volume types are checked later, and ``tenant_id`` is
    ignored.
    """
    properties: Schema = dict.fromkeys(VOLUME, LIMIT) | {"tenant_id": {}, "class_name": {}, "force": BOOLEAN}
    patterns: Schema = {rf"^(?:{'|'.join(PER_TYPE)})[^\x00]{{1,255}}\Z": LIMIT}
    whole: Schema = {
        "type": "object",
        "properties": properties,
        "patternProperties": patterns,
        "minProperties": 1,
        "additionalProperties": False,
    }
    return {"type": "object", "properties": {name: whole}, "required": [name], "additionalProperties": False}


def _limits(asked: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the limits of a body; InvalidInputError for one of an unknown volume type."""
    known = {*_names()}
    found: dict[str, int | None] = {}
    for name, value in asked.items():
        if name in {"tenant_id", "class_name", "force"}:
            continue
        if name not in known:
            raise InvalidInputError(f"Bad key(s) in quota set: {name[:80]}", field=name[:80])
        found[name] = int(value)
    return found


class QuotaBase(VolumeView):
    """Base of the views of a project's quotas."""

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self.kwargs.get("project_id", "")}

    def project(self, project_id: str) -> uuid.UUID:
        found = read_id(project_id)
        if found is None:
            raise InvalidInputError(f"Invalid project id {project_id[:64]}.", field="project_id")
        return found

    def check_rule(self, request: Request) -> None:
        """Refuse quotas of other projects to callers who may not update quotas."""
        super().check_rule(request)
        if read_id(self.kwargs.get("project_id", "")) != self.context.project_id:
            policy.enforce(self.context, "volume_extension:quotas:update", self.policy_target())


class QuotaSetView(QuotaBase):
    """``GET``, ``PUT`` and ``DELETE /os-quota-sets/{project_id}``."""

    rules = {
        "GET": "volume_extension:quotas:show",
        "PUT": "volume_extension:quotas:update",
        "DELETE": "volume_extension:quotas:delete",
    }
    schemas = {"PUT": _schema("quota_set")}

    def get(self, request: Request, project_id: str) -> Response:
        """Show a project's limits; with ``usage=True`` also usage and reservations."""
        project = self.project(project_id)
        if asked_for(request, "usage"):
            found = selectors.detail_of(project)
            empty = selectors.Detail(UNLIMITED, 0, 0)
            usage = self._of_types(project)
            shape: dict[str, Any] = {
                name: (found.get(name) or usage.get(name) or empty)._asdict() | {"allocated": 0} for name in _names()
            }
            return Response({"quota_set": {"id": project_id, **shape}})
        return Response({"quota_set": {"id": project_id, **_write(selectors.limits_of(project), _names())}})

    def _of_types(self, project: uuid.UUID) -> dict[str, selectors.Detail]:
        used = selectors.usage_of(project)
        return {name: selectors.Detail(UNLIMITED, used[name], 0) for name in used if name.startswith(PER_TYPE)}

    def put(self, request: Request, project_id: str) -> Response:
        """Update limits; one below the usage is refused unless ``force``."""
        project = self.project(project_id)
        asked = self.checked_body()["quota_set"]
        set_limits(project, _limits(asked), force=boolean(asked.get("force", False)))
        return Response({"quota_set": _write(selectors.limits_of(project), _names())})

    def delete(self, request: Request, project_id: str) -> Response:
        """Reset the project's limits to the defaults."""
        reset_limits(self.project(project_id), _names())
        return Response(status=200)


class QuotaDefaultsView(QuotaBase):
    """``GET /os-quota-sets/{project_id}/defaults``."""

    rules = {"GET": "volume_extension:quotas:show"}

    def get(self, request: Request, project_id: str) -> Response:
        """Show the default limits."""
        self.project(project_id)
        return Response({"quota_set": {"id": project_id, **_defaults()}})


class QuotaClassView(VolumeView):
    """``GET`` and ``PUT /os-quota-class-sets/{class}``: the defaults of the cloud, its only class."""

    rules = {"GET": "volume_extension:quota_classes:get", "PUT": "volume_extension:quota_classes:update"}
    schemas = {"PUT": _schema("quota_class_set")}

    def get(self, request: Request, class_name: str) -> Response:
        """Show the default limits, which are the same for every class."""
        shape = _defaults()
        return Response({"quota_class_set": {"id": class_name[:255], **shape}})

    def put(self, request: Request, class_name: str) -> Response:
        """Update default limits."""
        asked = _limits(self.checked_body()["quota_class_set"])
        if class_name != "default":
            raise InvalidInputError("There is no quota class but 'default'.", field="class_name")
        set_limits(None, asked)
        return Response({"quota_class_set": _defaults()})


_MAXIMA = {
    "maxTotalVolumes": "volumes",
    "maxTotalVolumeGigabytes": "gigabytes",
    "maxTotalSnapshots": "snapshots",
    "maxTotalBackups": "backups",
    "maxTotalBackupGigabytes": "backup_gigabytes",
}
_USED = {
    "totalVolumesUsed": "volumes",
    "totalGigabytesUsed": "gigabytes",
    "totalSnapshotsUsed": "snapshots",
    "totalBackupsUsed": "backups",
    "totalBackupGigabytesUsed": "backup_gigabytes",
}


class LimitsView(VolumeView):
    """``GET /limits``."""

    rules = {"GET": "limits_extension:used_limits"}

    def get(self, request: Request) -> Response:
        """Show the project's limits and usage; from 3.39 on operators may specify another ``project_id``."""
        project = self.own_project
        asked = request.query_params.get("project_id") or request.query_params.get("tenant_id")
        if asked and self.microversion >= (3, 39) and self.allows("volume_extension:quotas:update"):
            project = read_id(asked) or project
        limits, used = selectors.limits_of(project), selectors.usage_of(project)
        absolute = {name: limits[resource] for name, resource in _MAXIMA.items()}
        absolute |= {name: used[resource] for name, resource in _USED.items()}
        return Response({"limits": {"rate": [], "absolute": absolute}})
