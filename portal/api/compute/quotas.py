"""Quota sets, quota class sets and limits (Compute API reference, "Quota sets", "Quota class sets", "Limits")."""

import functools
import uuid
from collections.abc import Mapping
from typing import Any

from portal.api.compute.dialect import BOOLEAN, ComputeView, boolean, last, query
from portal.api.frame import Call, Json, Schema, Values, Version, at_version, body, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute import selectors as compute
from provisioning.identity import policy
from provisioning.identity.selectors.lookups import projects_by_id, users_by_id
from provisioning.quotas import selectors
from provisioning.quotas.limits import COMPUTE, UNLIMITED
from provisioning.quotas.services.limits import reset_limits, set_limits

_INJECTED = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
OF_NETWORKS = {
    "fixed_ips": "fixed_ips",
    "floating_ips": "floatingips",
    "security_groups": "security_groups",
    "security_group_rules": "security_group_rules",
}
"""Name in the API → resource that the Network API limits; as in Nova, the Compute API shows -1 until a limit is set."""
_LIMIT: Schema = {"type": ["integer", "string"], "pattern": r"^-?[0-9]{1,10}\Z", "minimum": -1, "maximum": MAX_INTEGER}
_GROUPS = ("server_groups", "server_group_members")


@functools.cache
def resources_of(microversion: Version) -> dict[str, str]:
    """Return the resources that have a limit in this version: name in the API → resource."""
    names = {name: name for name in COMPUTE if microversion < (2, 57) or name not in _INJECTED}
    return names | (OF_NETWORKS if microversion < (2, 36) else {})


RESOURCES = resources_of((2, 1))
"""Name in the API → resource, for the resources of all versions."""


@functools.cache
def class_resources_of(microversion: Version) -> dict[str, str]:
    """Return the resources that quota classes limit in this version: name in the API → resource. 2.50 removed the
    resources of networks and added server groups.
    """
    if microversion >= (2, 50):
        return resources_of(microversion)
    return {name: resource for name, resource in RESOURCES.items() if name not in _GROUPS}


def quota_set(version: Version) -> Schema:
    """Return the schema of ``PUT /os-quota-sets/{project}``."""
    return body("quota_set", dict.fromkeys(resources_of(version), _LIMIT) | {"force": BOOLEAN})


def quota_class_set(version: Version) -> Schema:
    """Return the schema of ``PUT /os-quota-class-sets/{class}``."""
    names = [*class_resources_of(version), *_GROUPS]
    return body("quota_class_set", dict.fromkeys(names, _LIMIT))


def of_user(version: Version) -> Schema:
    """The query of ``/os-quota-sets/{project}`` and of its detail."""
    return query(version, {"user_id": {"type": "string"}})


def limits(version: Version) -> Schema:
    """The query of ``GET /limits``."""
    return query(version, {"tenant_id": {"type": "string"}, "reserved": {"type": "string"}})


def known_project(context: RequestContext, text: str) -> uuid.UUID:
    """Return the id of an existing project; raises InvalidInputError, as Nova does, for any other text."""
    project = read_id(text)
    if project is None or (project != context.project_id and project not in projects_by_id([project])):
        raise InvalidInputError(f"Project ID {text[:64]} is not a valid project.", field="project_id")
    return project


class QuotaSetBase(ComputeView):
    """Base of the views of a project's quotas; the first argument of the services is the project's id."""

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self.kwargs.get("project_id", "")}

    def arguments(self, project_id: str = "", **ids: str) -> tuple[uuid.UUID]:
        return (known_project(self.context, project_id),)


def _user(view: ComputeView) -> uuid.UUID | None:
    """Return the user whose quotas in the project are requested, or None for the quotas of the project.

    Return ``NOBODY``, who has the project's limits and uses nothing, for an unknown id, as in Nova.
    """
    user_id = last(view.checked_query(), "user_id")
    return (read_id(user_id) or NOBODY) if user_id else None


def _user_and_version(view: ComputeView) -> Values:
    return {"user": _user(view), "version": view.microversion}


def _known_user_and_version(view: ComputeView) -> Values:
    """Return the user as ``_user`` does, for an update. Raises InvalidInputError if the user does not exist."""
    user = _user(view)
    if user is not None and user != view.context.user_id and user not in users_by_id([user]):
        raise InvalidInputError("The user_id does not belong to a user.", field="user_id")
    return {"user": user, "version": view.microversion}


def _limits(project: uuid.UUID, user: uuid.UUID | None, version: Version) -> dict[str, int]:
    """Return the limits in the version's format: a limit of the user if one is set, otherwise the limit of the
    project.
    """
    bounds = selectors.bounds_of(project, user)
    return shape_of({**bounds.project, **bounds.user}, version) | hidden_limits(project, version)


def _show(project: uuid.UUID, *, user: uuid.UUID | None, version: Version) -> Json:
    return {"id": project.hex, **_limits(project, user, version)}


def _update(project: uuid.UUID, body: Json, *, user: uuid.UUID | None, version: Version) -> dict[str, int]:
    force = boolean(body.pop("force", False))
    set_limits(project, read_limits(body, resources_of(version)), force=force, user_id=user)
    return _limits(project, user, version)


def _reset(project: uuid.UUID, *, user: uuid.UUID | None, version: Version) -> None:
    reset_limits(project, resources_of(version).values(), user_id=user)


def _defaults(project: uuid.UUID, *, version: Version) -> Json:
    return {"id": project.hex, **shape_of(selectors.default_limits(), version), **hidden_limits(None, version)}


def _detail(project: uuid.UUID, *, user: uuid.UUID | None, version: Version) -> Json:
    found = selectors.detail_of(project) if user is None else selectors.detail_in(project, user)
    if user is not None:
        keys = selectors.detail_of(user)["key_pairs"]
        found["key_pairs"] = keys._replace(limit=found["key_pairs"].limit)
    shape: Json = {name: found[resource]._asdict() for name, resource in resources_of(version).items()}
    for name, limit in hidden_limits(project, version).items():
        shape[name]["limit"] = limit
    return {"id": project.hex, **shape}


def _update_class(context: RequestContext, class_name: str, body: Json, *, version: Version) -> Any:
    if class_name != "default":
        raise InvalidInputError("There is no quota class but 'default'.", field="quota_class_name")
    set_limits(None, read_limits(body, class_resources_of(version)))
    return _class_limits(version)


def _class_limits(version: Version) -> dict[str, int]:
    limits, names = selectors.default_limits(), class_resources_of(version)
    hidden = {name: limit for name, limit in hidden_limits(None, (2, 1)).items() if name in names}
    return {name: limits[resource] for name, resource in names.items()} | hidden


def shape_of(limits: dict[str, int], version: Version) -> dict[str, int]:
    """Return the limits with the names of the version."""
    return {name: limits[resource] for name, resource in resources_of(version).items()}


def hidden_limits(project: uuid.UUID | None, version: Version) -> dict[str, int]:
    """Return the network limits that are not set, as API name → -1: the limits of a project, or the default limits if
    ``project`` is None.

    Nova no longer has these limits and shows -1.
    """
    names = {name: resource for name, resource in OF_NETWORKS.items() if name in resources_of(version)}
    if not names:
        return {}
    known = selectors.own_limits(None) | (selectors.own_limits(project) if project is not None else {})
    return {name: UNLIMITED for name, resource in names.items() if resource not in known}


def read_limits(values: Json, names: Mapping[str, str]) -> dict[str, int | None]:
    """Return resource → limit for the limits in a body; ``names`` maps names in the API to resources."""
    return {names.get(name, name): int(limit) for name, limit in values.items()}


QUOTA_SETS = parts(
    QuotaSetBase,
    "os-quota-sets/{project_id}",
    {
        "GET": Call(
            _show,
            "os_compute_api:os-quota-sets:show",
            "Show the limits of the project, or with ``user_id`` the limits of one user in it.",
            name="quota_set",
            query=of_user,
            more=_user_and_version,
        ),
        "PUT": Call(
            _update,
            "os_compute_api:os-quota-sets:update",
            "Update limits of the project, or with ``user_id`` of one user in it; the response has no id, as in Nova."
            "\n\nUnless ``force``, a limit below the usage, or a user's limit above the project's, is refused.",
            name="quota_set",
            body=quota_set,
            query=of_user,
            more=_known_user_and_version,
        ),
        "DELETE": Call(
            _reset,
            "os_compute_api:os-quota-sets:delete",
            "Reset the project's limits to the defaults, or with ``user_id`` one user's limits to the project's.",
            query=of_user,
            more=_user_and_version,
            status=202,
        ),
        "GET /defaults": Call(
            _defaults,
            "os_compute_api:os-quota-sets:defaults",
            "Show the default limits.",
            name="quota_set",
            more=at_version,
        ),
        "GET /detail": Call(
            _detail,
            "os_compute_api:os-quota-sets:detail",
            "Show limits, usage and reservations of the project; with ``user_id`` of one user in the project,"
            " including key pairs.",
            name="quota_set",
            query=of_user,
            more=_user_and_version,
        ),
    },
) | parts(
    ComputeView,
    "os-quota-class-sets/{class_name}",
    {
        "GET": Call(
            lambda context, class_name, *, version: {"id": class_name[:255], **_class_limits(version)},
            "os_compute_api:os-quota-class-sets:show",
            "Show the default limits, which are the same for every class.",
            name="quota_class_set",
            more=at_version,
        ),
        "PUT": Call(
            _update_class,
            "os_compute_api:os-quota-class-sets:update",
            "Update default limits; the response has no id, as in Nova.",
            name="quota_class_set",
            body=quota_class_set,
            more=at_version,
        ),
    },
)


_MAXIMA = {
    "maxTotalInstances": "instances",
    "maxTotalCores": "cores",
    "maxTotalRAMSize": "ram",
    "maxTotalKeypairs": "key_pairs",
    "maxServerMeta": "metadata_items",
    "maxServerGroups": "server_groups",
    "maxServerGroupMembers": "server_group_members",
}
_USED = {
    "totalInstancesUsed": "instances",
    "totalCoresUsed": "cores",
    "totalRAMUsed": "ram",
    "totalServerGroupsUsed": "server_groups",
}
_NETWORK_MAXIMA = {
    "maxTotalFloatingIps": "floating_ips",
    "maxSecurityGroups": "security_groups",
    "maxSecurityGroupRules": "security_group_rules",
}
_FILE_MAXIMA = {"maxPersonality": "injected_files", "maxPersonalitySize": "injected_file_content_bytes"}
_NETWORK_USED = {"totalFloatingIpsUsed": "floatingips", "totalSecurityGroupsUsed": "security_groups"}


def _requested_limits(view: ComputeView) -> Values:
    return {"tenant_id": last(view.checked_query(), "tenant_id"), "version": view.microversion}


def _show_limits(context: RequestContext, *, tenant_id: str | None, version: Version) -> Json:
    if tenant_id:
        project = read_id(tenant_id) or NOBODY  # Identity is not queried: a project without records has the defaults
        if project != context.project_id:
            policy.enforce(context, "os_compute_api:limits:other_project", {"project_id": project})
        context = context.in_project(project)
    found = compute.limits_for(context, own=False)
    maxima, used = dict(_MAXIMA), dict(_USED)
    if version < (2, 36):
        maxima |= {name: OF_NETWORKS[quota] for name, quota in _NETWORK_MAXIMA.items()}
        used |= _NETWORK_USED
    if version < (2, 39):
        maxima["maxImageMeta"] = "metadata_items"
    if version < (2, 57):
        maxima |= _FILE_MAXIMA
    absolute = {name: found.limits[resource] for name, resource in maxima.items()}
    unset = hidden_limits(context.project_id, version)
    absolute |= {name: unset[quota] for name, quota in _NETWORK_MAXIMA.items() if quota in unset}
    absolute |= {name: found.usage[resource] for name, resource in used.items()}
    return {"rate": [], "absolute": absolute}


LIMITS = parts(
    ComputeView,
    "limits",
    {
        "GET": Call(
            _show_limits,
            "os_compute_api:limits",
            "Show the project's absolute limits and its usage, in use and reserved together; there are no rate limits."
            "\n\nAs in Nova, these are the limits of the project for every user; limits of a user are in the quota"
            " sets. ``tenant_id`` specifies another project, for operators; ``reserved`` is ignored, as in Nova.",
            name="limits",
            query=limits,
            more=_requested_limits,
        )
    },
)
