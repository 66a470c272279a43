"""Role assignments of one user or group on one project, one domain or the system; under ``OS-INHERIT``, assignments
that all projects below inherit.
"""

from typing import Any, ClassVar, Unpack, cast

from portal.api.common.views import ServiceView
from portal.api.frame.parts import Call, parts
from portal.api.identity.dialect import patterns
from portal.api.identity.dialect.bodies import list_links
from portal.api.identity.roles.roles import ROLE, DomainScopedView
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Role
from provisioning.identity.roles.grant_target import Target
from provisioning.identity.selectors.grants import granted_roles, has_grant
from provisioning.identity.selectors.role_lookups import rule_target
from provisioning.identity.services.assignments import grant, no_assignment, revoke_grant


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


def _check(role: Role, **target: Unpack[Target]) -> None:
    """Raise NotFoundError if the role is not assigned in this way."""
    if not has_grant(role, **target):
        records: dict[str, Any] = {**target}
        actor = records.get("user") or records.get("group")
        raise NotFoundError(no_assignment(role, actor, records.get("project") or records.get("domain") or "system"))


def _roles(view: Any, found: list[Role]) -> dict[str, Any]:
    path = view.request.path.partition("/v3")[2].rstrip("/")
    return {"roles": ROLE.shapes(view, found), "links": list_links(view.request, path)}


def _views(where: str, rules: str, end: str = "", **members: bool) -> dict[str, type[ServiceView]]:
    """Return path → view of the assignments of an actor; ``rules``: the names of their rules after the verb."""
    more, one = GrantsView.where, f" /{{role_id}}{end}"
    calls = {
        f"GET {end}": Call(granted_roles, f"identity:list_{rules.replace('grant', 'grants')}", more=more, shape=_roles),
        f"GET{one}": Call(
            _check,
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
ROUTES: dict[str, type[ServiceView]] = {}
"""Path after ``/v3`` → view."""
for _where in _HERE:
    ROUTES |= patterns(_views(f"{_where}/roles", "grant"))
    ROUTES |= patterns(_views(f"OS-INHERIT/{_where}/roles", "grant", "/inherited_to_projects", inherited=True))
for _actor in _ACTORS:
    _system = f"system/{_actor}s/{{{_actor}_id}}/roles"
    ROUTES |= patterns(_views(_system, f"system_grant_for_{_actor}", system=True))
