"""``/v3/role_assignments``: role assignments as granted, or in effect.

Also grants: role assignments of one user or group on one project, one domain or the system; under ``OS-INHERIT``,
assignments that all projects below inherit.
"""

import uuid
from typing import Any, ClassVar, Unpack, cast

from rest_framework.request import Request

from portal.api.frame import Call, Json, Pages, ServiceView, Values, endpoint, parts
from portal.api.identity.dialect import lists, patterns
from portal.api.identity.roles.roles import ROLE, DomainScopedView
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.identity.models import Domain, Project, Role
from provisioning.identity.roles.grant_target import Target
from provisioning.identity.selectors import assignment_lists
from provisioning.identity.selectors.lookups import by_id, rule_target
from provisioning.identity.selectors.members import granted_roles, has_grant
from provisioning.identity.services.assignments import grant, no_assignment, revoke_grant

INHERITED = "scope.OS-INHERIT:inherited_to"
PARAMETERS = (
    *("effective", "include_names", "include_subtree", "limit", "user.id", "group.id", "role.id"),
    *("scope.project.id", "scope.domain.id", "scope.system", INHERITED),
)


class RoleAssignmentsView(ServiceView):
    """``/v3/role_assignments``; a token for a domain shows only the assignments on the domain and its projects."""

    rules = {"GET": "identity:list_role_assignments"}
    queries = {"GET": lists.parameters({name: {"type": "string"} for name in PARAMETERS})}

    def rule_of(self, method: str) -> str | None:
        """Return the rule; as in Keystone, a list that includes the subtree of a project has its own rule."""
        return (
            "identity:list_role_assignments_for_tree"
            if lists.flag(self.request, "include_subtree")
            else super().rule_of(method)
        )

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the token."""
        return {"domain_id": self.context.domain_id}

    def get(self, request: Request) -> Json:
        """List role assignments; ``truncated`` is set if there are more than ``limit``."""
        effective = lists.flag(request, "effective")
        filters = _filters(request, self.context.domain_id)
        _check(request, filters, effective=effective)
        page = Pages(largest=assignment_lists.MOST_ASSIGNMENTS).read(request)
        found = assignment_lists.assignments(filters, effective=effective, limit=page.limit + 1)
        shown = found[: page.limit]
        names = assignment_lists.names_of(shown) if lists.flag(request, "include_names") else None
        body = {
            "role_assignments": [_shape(request, each, names) for each in shown],
            "links": lists.list_links(request, "/role_assignments"),
        }
        return body | ({"truncated": True} if len(found) > len(shown) else {})


def _filters(request: Request, within: str | None) -> assignment_lists.AssignmentFilters:
    query = request.query_params
    domain_id = query.get("scope.domain.id")
    subtree = lists.flag(request, "include_subtree")
    top = _top_domain(query["scope.project.id"]) if subtree and "scope.project.id" in query else None
    return assignment_lists.AssignmentFilters(
        user_id=_id(request, "user.id"),
        group_id=_id(request, "group.id"),
        role_id=_id(request, "role.id"),
        project_id=None if top is not None else _id(request, "scope.project.id"),
        subtree=subtree,
        top_domain_id=top,
        domain_id=None if domain_id is None else domain_id.replace("\0", "\N{REPLACEMENT CHARACTER}"),
        system=_one_of(request, "scope.system", {"all", "true", "1"}),
        inherited=_one_of(request, INHERITED, {"projects"}),
        within_domain_id=within,
    )


def _top_domain(text: str) -> str | None:
    """Return the id if it is the id of a domain, which in Keystone is also a root project; None if it is the id of a
    project.

    Raises NotFoundError for an unknown id.
    """
    if by_id(Project, text) is not None:
        return None
    if "\0" in text or by_id(Domain, text) is None:
        raise NotFoundError(f"Could not find project: {text[:64]}.")
    return text


def _id(request: Request, name: str) -> uuid.UUID | None:
    text = request.query_params.get(name)
    return None if text is None else read_id(text) or NOBODY


def _one_of(request: Request, name: str, values: set[str]) -> bool:
    text = request.query_params.get(name)
    if text is not None and text.lower() not in values:
        raise InvalidInputError(f"{name} must be {sorted(values)[-1] if len(values) == 1 else 'all'}.", field=name)
    return text is not None


def _check(request: Request, filters: assignment_lists.AssignmentFilters, *, effective: bool) -> None:
    """Raise InvalidInputError for filters that contradict each other."""
    if filters.user_id and filters.group_id:
        raise InvalidInputError("Specify a user or group, not both.", field="group.id")
    scopes = [bool(filters.project_id), filters.domain_id is not None, filters.system]
    if scopes.count(True) > 1:
        raise InvalidInputError("Specify a project, a domain or the system, not several of them.", field="scope")
    if filters.subtree and not filters.on_projects:
        raise InvalidInputError(
            "scope.project.id must be specified if include_subtree is also specified.", field="include_subtree"
        )
    if not effective:
        return
    if filters.group_id:
        raise InvalidInputError(
            "Combining effective and group filter will always result in an empty list.", field="group.id"
        )
    if filters.inherited and filters.domain_id is not None:
        raise InvalidInputError(
            "Combining effective, domain and inherited filters will always result in an empty list.", field=INHERITED
        )


def _shape(request: Request, found: assignment_lists.Assignment, names: assignment_lists.Names | None) -> Json:
    """Return a role assignment with links to its origin; ``names`` adds the names of its records."""
    shape: Json = {"role": _role(found, names), "scope": _scope(found, names)}
    if found.user_id is not None:
        shape["user"] = lists.named_in_domain(names.users[found.user_id]) if names else {"id": found.user_id.hex}
    elif found.group_id is not None:
        shape["group"] = _group(found, names)
    return shape | {"links": _links(request, found)}


def _role(found: assignment_lists.Assignment, names: assignment_lists.Names | None) -> Json:
    if names is None:
        return {"id": found.role_id.hex}
    record = names.roles[found.role_id]
    domain = {"domain": lists.named(record.domain)} if record.domain else {}
    return lists.named(record) | domain


def _group(found: assignment_lists.Assignment, names: assignment_lists.Names | None) -> Json:
    assert found.group_id is not None  # noqa: S101 - an assignment without a user has a group
    if names is None:
        return {"id": found.group_id.hex}
    record = names.groups[found.group_id]
    return {"id": record.id.hex, "name": record.name, "domain": lists.named(record.domain)}


def _scope(found: assignment_lists.Assignment, names: assignment_lists.Names | None) -> Json:
    scope: Json
    if found.project_id is not None:
        project = names.projects[found.project_id] if names else None
        scope = {"project": lists.named_in_domain(project) if project else {"id": found.project_id.hex}}
    elif found.domain_id is not None:
        domain = names.domains[found.domain_id] if names else None
        scope = {"domain": lists.named(domain) if domain else {"id": found.domain_id}}
    else:
        scope = {"system": {"all": True}}
    if found.inherited:
        scope["OS-INHERIT:inherited_to"] = "projects"
    return scope


def _links(request: Request, found: assignment_lists.Assignment) -> Json:
    """Return the links to the original grant, and to the membership and the implied role from which the assignment is
    derived.
    """
    base = endpoint(request, "identity")
    project = found.given_project_id or (None if found.given_domain_id else found.project_id)
    domain = found.given_domain_id or found.domain_id
    target = f"/projects/{project.hex}" if project else f"/domains/{domain}" if domain else "/system"
    group = found.given_group_id or found.group_id
    actor = f"/groups/{group.hex}" if group else f"/users/{found.user_id.hex}" if found.user_id else ""
    path = f"{target}{actor}/roles/{found.given_role_id.hex}"
    shape = {"assignment": base + (f"/OS-INHERIT{path}/inherited_to_projects" if found.inherited else path)}
    if found.given_group_id is not None and found.user_id is not None:
        shape["membership"] = f"{base}/groups/{found.given_group_id.hex}/users/{found.user_id.hex}"
    if found.prior_role_id is not None:
        shape["prior_role"] = f"{base}/roles/{found.prior_role_id.hex}/implies/{found.role_id.hex}"
    return shape


class GrantsView(DomainScopedView):
    """Role assignments of an actor on a target: the role in the path is the argument of the services."""

    inherited: ClassVar[bool] = False
    system: ClassVar[bool] = False

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the grant: the domain of its project, or the domain itself; see policies/grants.py."""
        target = self._addressed("project_id", "domain_id")
        actor = self._addressed("user_id", "group_id")
        role = self.addressed["role_id"].record if "role_id" in self.addressed else None
        result: dict[str, object] = {
            "domain_id": target.domain_id if target else None,
            "actor_domain_id": actor.domain_id if actor else None,
            **rule_target(role if isinstance(role, Role) else None),
        }
        return result | {name: text for name, text in self.kwargs.items() if name != "domain_id"}

    def _addressed(self, *names: str) -> Any:
        return next((self.addressed[name] for name in names if name in self.addressed), None)

    def arguments(self, **ids: str) -> tuple[Any, ...]:
        return (self.role(),) if "role_id" in ids else ()

    def where(self) -> Target:
        """Return the actor and the target as arguments of the services."""
        records = {found.kind: found.record for found in self.addressed.values() if found.kind != "role"}
        return cast("Target", {**records, "system": self.system, "inherited": self.inherited})


def _check_grant(role: Role, **target: Unpack[Target]) -> None:
    """Raise NotFoundError if the role is not assigned in this way."""
    if not has_grant(role, **target):
        records: Values = {**target}
        actor = records.get("user") or records.get("group")
        raise NotFoundError(no_assignment(role, actor, records.get("project") or records.get("domain") or "system"))


def _granted_roles(view: Any, found: list[Role]) -> Json:
    path = view.request.path.partition("/v3")[2].rstrip("/")
    return {"roles": ROLE.shapes(view, found), "links": lists.list_links(view.request, path)}


def _grant_views(where: str, rules: str, end: str = "", **members: bool) -> dict[str, type[ServiceView]]:
    """Return path → view of the assignments of an actor; ``rules``: the names of their rules after the verb."""
    more, one = GrantsView.where, f" /{{role_id}}{end}"
    calls = {
        f"GET {end}": Call(
            granted_roles, f"identity:list_{rules.replace('grant', 'grants')}", more=more, shape=_granted_roles
        ),
        f"GET{one}": Call(
            _check_grant,
            f"identity:check_{rules}",
            "Answer 204 if the role is assigned in this way, otherwise 404.",
            more=more,
        ),
        f"PUT{one}": Call(grant, f"identity:create_{rules}", "Assign the role; idempotent.", more=more),
        f"DELETE{one}": Call(
            revoke_grant, f"identity:revoke_{rules}", "Revoke the role; effective immediately.", more=more
        ),
    }
    return parts(GrantsView, where, calls, **members)


_ACTORS = ("user", "group")
_HERE = [f"{target}s/{{{target}_id}}/{actor}s/{{{actor}_id}}" for target in ("project", "domain") for actor in _ACTORS]
GRANTS: dict[str, type[ServiceView]] = {}
"""Path after ``/v3`` → view."""
for _where in _HERE:
    GRANTS |= patterns(_grant_views(f"{_where}/roles", "grant"))
    GRANTS |= patterns(_grant_views(f"OS-INHERIT/{_where}/roles", "grant", "/inherited_to_projects", inherited=True))
for _actor in _ACTORS:
    _system = f"system/{_actor}s/{{{_actor}_id}}/roles"
    GRANTS |= patterns(_grant_views(_system, f"system_grant_for_{_actor}", system=True))
