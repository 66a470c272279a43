"""Policies that share records (Networking API v2.0 reference, "RBAC Policies")."""

from collections.abc import Callable
from typing import Any

from portal.api.frame import Operation, Values
from portal.api.network.dialect import Attribute, Resource, kinds, views
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import RbacPolicy
from provisioning.network.selectors.visibility import rbac_policies_for, rbac_policy_for

SHAREABLE: dict[str, Callable[..., Any]] = {
    "network": selectors.network_for,
    "security_group": selectors.security_group_for,
    "address_group": selectors.address_group_for,
    "address_scope": selectors.address_scope_for,
    "subnetpool": selectors.subnet_pool_for,
}
"""``object_type`` → selector of the record."""


def _target(context: RequestContext, target: str, rule: str, project_id: object) -> str:
    """Return the target project in a body; ``*`` (all projects) is accepted only if ``rule`` allows it."""
    if target == RbacPolicy.EVERYBODY:
        policy.enforce(context, rule, {"project_id": project_id})
        return target
    project = read_id(target)
    if project is None:
        msg = "Invalid input for target_tenant. Reason: it is a project's id or '*'."
        raise InvalidInputError(msg, field="target_tenant")
    return project.hex


def _create(context: RequestContext, values: Values) -> RbacPolicy:
    operator = policy.allows(context, views.ALL_PROJECTS)
    kind, owner = values["object_type"], values["project_id"]
    target = _target(context, values["target_tenant"], "create_rbac_policy:target_tenant", owner)
    row = SHAREABLE[kind](context, values["object_id"], all_projects=operator)
    if row.project_id != context.project_id and not operator:
        msg = "Invalid input for operation: Only admins can manipulate policies on objects they do not own."
        raise InvalidInputError(msg, field="object_id")
    if kind == "network" and values["action"] == RbacPolicy.EXTERNAL:
        # Hosts have their own addresses on external networks.
        policy.enforce(context, "update_network:router:external", {"project_id": row.project_id})
    return services.create_rbac_policy(owner, kind, row, values["action"], target)


def _update(context: RequestContext, row: RbacPolicy, values: Values, revision: int | None) -> RbacPolicy:
    if "target_tenant" not in values:
        return row
    rule = "update_rbac_policy:target_tenant"
    return services.update_rbac_policy(row, _target(context, values["target_tenant"], rule, row.project_id))


def _delete(context: RequestContext, row: RbacPolicy, revision: int | None) -> None:
    services.delete_rbac_policy(row)


RBAC_POLICY = Resource(
    name="rbac_policy",
    quota="rbac_policies",
    in_quota=lambda values: values["target_tenant"] != RbacPolicy.EVERYBODY,
    plural="rbac_policies",
    list=Operation(rbac_policies_for),
    show=Operation(rbac_policy_for),
    create=Operation(_create),
    update=Operation(_update),
    delete=Operation(_delete),
    tagged=False,
    attributes=(
        Attribute(name="id", kind=kinds.ID, sort=True),
        Attribute(name="project_id", kind=kinds.PROJECT_ID, post=True, sort=True),
        Attribute(name="tenant_id", kind=kinds.PROJECT_ID, post=True, column="project_id", sort=True),
        Attribute(name="object_type", kind=kinds.Choice(tuple(SHAREABLE)), post=True, required=True, sort=True),
        Attribute(name="object_id", kind=kinds.ID, post=True, required=True, sort=True),
        Attribute(
            name="action",
            kind=kinds.Choice(("access_as_shared", "access_as_external")),
            post=True,
            required=True,
            sort=True,
        ),
        Attribute(
            name="target_tenant",
            kind=kinds.Text(),
            column="target_project",
            post=True,
            put=True,
            required=True,
            sort=True,
        ),
    ),
)
