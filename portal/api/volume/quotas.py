"""Quota sets, quota class sets and limits (reference, "Quota sets extension", "Quota class set", "Limits")."""

import uuid
from collections.abc import Iterable, Mapping

from rest_framework.request import Request

from portal.api.frame import Call, Json, Schema, parts
from portal.api.volume.dialect import VolumeView, schemas
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.identity import policy
from provisioning.quotas import selectors
from provisioning.quotas.limits import PER_TYPE, UNLIMITED, VOLUME
from provisioning.quotas.services.limits import reset_limits, set_limits
from provisioning.volumes.selectors.offers import type_names


def _names() -> list[str]:
    """All quotas of Block Storage: general quotas, and three for each volume type."""
    return [*VOLUME, *(f"{kind}{name}" for name in type_names() for kind in PER_TYPE)]


def _write(values: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: values.get(name, UNLIMITED) for name in names}


def _defaults() -> dict[str, int]:
    names = _names()
    return _write(selectors.default_limits(names), names)


def _schema(name: str) -> Schema:
    """Return the schema of a body with limits. Limits of volume types are checked later. ``tenant_id`` is ignored."""
    properties: Schema = dict.fromkeys(VOLUME, schemas.LIMIT) | {
        "tenant_id": {},
        "class_name": {},
        "force": schemas.BOOLEAN,
    }
    patterns: Schema = {rf"^(?:{'|'.join(PER_TYPE)})[^\x00]{{1,255}}\Z": schemas.LIMIT}
    whole: Schema = {
        "type": "object",
        "properties": properties,
        "patternProperties": patterns,
        "minProperties": 1,
        "additionalProperties": False,
    }
    return {"type": "object", "properties": {name: whole}, "required": [name], "additionalProperties": False}


def _limits(body: Json) -> dict[str, int | None]:
    """Return the limits of a body. Raises InvalidInputError for one of an unknown volume type."""
    known = {*_names()}
    result: dict[str, int | None] = {}
    for name, value in body.items():
        if name in {"tenant_id", "class_name", "force"}:
            continue
        if name not in known:
            raise InvalidInputError(f"Bad key(s) in quota set: {name[:80]}", field=name[:80])
        result[name] = int(value)
    return result


class QuotaBase(VolumeView):
    """Base of the views of a project's quotas."""

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self.kwargs.get("project_id", "")}

    def check_rule(self, request: Request) -> None:
        """Refuse quotas of other projects to callers who may not update quotas."""
        super().check_rule(request)
        if read_id(self.kwargs.get("project_id", "")) != self.context.project_id:
            policy.enforce(self.context, "volume_extension:quotas:update", self.policy_target())


def _project(project_id: str) -> uuid.UUID:
    found = read_id(project_id)
    if found is None:
        raise InvalidInputError(f"Invalid project id {project_id[:64]}.", field="project_id")
    return found


def _show(context: RequestContext, project_id: str, *, usage: bool) -> Json:
    project = _project(project_id)
    if not usage:
        return {"id": project_id, **_write(selectors.limits_of(project), _names())}
    used, empty = selectors.usage_of(project), selectors.Detail(UNLIMITED, 0, 0)
    of_types = {name: selectors.Detail(UNLIMITED, used[name], 0) for name in used if name.startswith(PER_TYPE)}
    found = of_types | selectors.detail_of(project)
    return {"id": project_id, **{name: found.get(name, empty)._asdict() | {"allocated": 0} for name in _names()}}


def _update(context: RequestContext, project_id: str, body: Json) -> dict[str, int]:
    project = _project(project_id)
    set_limits(project, _limits(body), force=schemas.boolean(body.get("force", False)))
    return _write(selectors.limits_of(project), _names())


def _show_defaults(context: RequestContext, project_id: str) -> Json:
    _project(project_id)
    return {"id": project_id, **_defaults()}


def _update_defaults(context: RequestContext, class_name: str, body: Json) -> dict[str, int]:
    limits = _limits(body)
    if class_name != "default":
        raise InvalidInputError("There is no quota class but 'default'.", field="class_name")
    set_limits(None, limits)
    return _defaults()


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


def _show_limits(context: RequestContext, *, project: uuid.UUID) -> Json:
    limits, used = selectors.limits_of(project), selectors.usage_of(project)
    absolute = {name: limits[resource] for name, resource in _MAXIMA.items()}
    absolute |= {name: used[resource] for name, resource in _USED.items()}
    return {"rate": [], "absolute": absolute}


def _asked_project(view: VolumeView) -> dict[str, uuid.UUID]:
    project_id = view.request.query_params.get("project_id") or view.request.query_params.get("tenant_id")
    other = project_id and view.microversion >= (3, 39) and view.allows("volume_extension:quotas:update")
    return {"project": (other and read_id(str(project_id))) or view.own_project}


PARTS = (
    parts(
        QuotaBase,
        "os-quota-sets/{project_id}",
        {
            "GET": Call(
                _show,
                "volume_extension:quotas:show",
                "Show a project's limits; with ``usage=True`` also usage and reservations.",
                name="quota_set",
                more=lambda view: {"usage": schemas.asked_for(view.request, "usage")},
            ),
            "PUT": Call(
                _update,
                "volume_extension:quotas:update",
                "Update limits; one below the usage is refused unless ``force``.",
                name="quota_set",
                body=_schema("quota_set"),
            ),
            "DELETE": Call(
                lambda context, project_id: reset_limits(_project(project_id), _names()),
                "volume_extension:quotas:delete",
                "Reset the project's limits to the defaults.",
                status=200,
            ),
            "GET /defaults": Call(
                _show_defaults, "volume_extension:quotas:show", "Show the default limits.", name="quota_set"
            ),
        },
    )
    | parts(
        VolumeView,
        "os-quota-class-sets/{class_name}",
        {
            "GET": Call(
                lambda context, class_name: {"id": class_name[:255], **_defaults()},
                "volume_extension:quota_classes:get",
                "Show the default limits, which are the same for every class.",
                name="quota_class_set",
            ),
            "PUT": Call(
                _update_defaults,
                "volume_extension:quota_classes:update",
                "Update default limits.",
                name="quota_class_set",
                body=_schema("quota_class_set"),
            ),
        },
    )
    | parts(
        VolumeView,
        "limits",
        {
            "GET": Call(
                _show_limits,
                "limits_extension:used_limits",
                "Show the project's limits and usage; from 3.39 on operators may specify another ``project_id``.",
                name="limits",
                more=_asked_project,
            )
        },
    )
)
