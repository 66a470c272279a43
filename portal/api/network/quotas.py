"""Quotas of the Networking API (Networking API reference, "Quotas extension")."""

import uuid

from portal.api.frame import Call, Json, parts
from portal.api.network.dialect import views
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.network.errors import TenantQuotaNotFoundError
from provisioning.quotas import selectors
from provisioning.quotas.services.limits import reset_limits, set_limits

NAMES = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "floatingip": "floatingips",
    "security_group": "security_groups",
    "security_group_rule": "security_group_rules",
    "subnetpool": "subnetpools",
    "rbac_policy": "rbac_policies",
    "address_group": "address_groups",
    "address_scope": "address_scopes",
}
"""Name in the API → resource."""
_LIMIT = {"type": ["integer", "string"], "pattern": r"^-?[0-9]{1,10}\Z", "minimum": -1, "maximum": MAX_INTEGER}
_QUOTA = {
    "type": "object",
    "properties": {
        "quota": {
            "type": "object",
            "properties": {
                **dict.fromkeys(NAMES, _LIMIT),
                "force": {"type": "boolean"},
                "check_limit": {"type": "boolean"},
            },
            "additionalProperties": False,
        }
    },
    "required": ["quota"],
    "additionalProperties": False,
}


class DefaultsView(views.NetworkView):
    """Quotas whose rule has no target: the project's id in the path is the argument of the services."""

    def arguments(self, **ids: str) -> tuple[uuid.UUID, ...]:
        """Return the id of the project, which need not exist in Identity. Raises NotFoundError for an invalid id."""
        found = {text: read_id(text) for text in ids.values()}
        for text, key in found.items():
            if key is None:
                raise NotFoundError(f"Project {text[:64]} could not be found.")
        return tuple(key for key in found.values() if key is not None)


class QuotaView(DefaultsView):
    """Quotas of the project in the path."""

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self.kwargs.get("project_id", "")}


def _update(project: uuid.UUID, quota: Json) -> uuid.UUID:
    force = quota.pop("force", False) or not quota.pop("check_limit", True)
    limits: dict[str, int | None] = {NAMES[name]: int(limit) for name, limit in quota.items() if name in NAMES}
    set_limits(project, limits, force=force)
    return project


def _reset(project: uuid.UUID, *, project_id: str) -> None:
    if not reset_limits(project, NAMES.values()):
        raise TenantQuotaNotFoundError(f"Quota for tenant {project_id[:64]} could not be found.")


def _detail(project: uuid.UUID) -> Json:
    found = selectors.detail_of(project)
    return {
        name: {"limit": found[resource].limit, "used": found[resource].in_use, "reserved": found[resource].reserved}
        for name, resource in NAMES.items()
    }


def _own(context: RequestContext) -> Json:
    if context.project_id is None:
        raise InvalidInputError("Quotas belong to a project: use a token that is scoped to one.")
    return _project(context.project_id)


def _project(project: uuid.UUID) -> Json:
    return {"project_id": project.hex, "tenant_id": project.hex}


def _limits_of(project: uuid.UUID) -> Json:
    limits = selectors.limits_of(project)
    return {name: limits[resource] for name, resource in NAMES.items()}


_OWN = Call(_own, "get_quota", "Show the caller's project, whose quotas apply.", name="tenant")
PARTS = {
    **parts(
        QuotaView,
        "quotas",
        {
            "GET": Call(
                lambda: [_limits_of(each) | _project(each) for each in selectors.projects_with_limits(NAMES.values())],
                "novella:get_quotas",
                "List the projects with quotas of their own.",
                name="quotas",
            )
        },
    ),
    **parts(views.NetworkView, "quotas/", {"GET tenant": _OWN, "GET project": _OWN}),
    **parts(
        DefaultsView,
        "quotas/{project_id}/default",
        {
            "GET": Call(
                lambda project: selectors.default_limits(),
                "get_quota",
                "Show the default limits.",
                name="quota",
                shape=lambda view, defaults: {name: defaults[resource] for name, resource in NAMES.items()},
            )
        },
    ),
    **parts(
        QuotaView,
        "quotas/{project_id}",
        {
            "GET /details": Call(_detail, "get_quota", "Show limits, usage and reservations.", name="quota"),
            "GET": Call(_limits_of, "get_quota", name="quota"),
            "PUT": Call(
                _update,
                "update_quota",
                "Update limits; one below the usage is refused unless ``force`` is true or ``check_limit`` is false.",
                name="quota",
                body=_QUOTA,
                shape=lambda view, project: _limits_of(project),
            ),
            "DELETE": Call(
                _reset,
                "delete_quota",
                "Reset the project's limits to the defaults; 404 if it has no limits of its own.",
                more=lambda view: {"project_id": view.kwargs["project_id"]},
            ),
        },
    ),
}
