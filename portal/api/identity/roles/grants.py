"""Role assignments of one user or group on one project, one domain or the system; under ``OS-INHERIT``, assignments
that all projects below inherit.
"""

from typing import Any, ClassVar, cast

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import ServiceView
from portal.api.identity.fragments import list_links
from portal.api.identity.roles.domain_scoped import DomainScopedView
from portal.api.identity.roles.roles import ROLE
from provisioning.common.errors import NotFoundError
from provisioning.identity.grant_target import Target
from provisioning.identity.models import Role
from provisioning.identity.selectors.grants import granted_roles, has_grant
from provisioning.identity.selectors.role_lookups import rule_target
from provisioning.identity.services.assignments import grant, no_assignment, revoke_grant


class _GrantsView(DomainScopedView):
    inherited: ClassVar[bool] = False
    system: ClassVar[bool] = False

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the grant: the domain of its project, or the domain itself; see policies/grants.py."""
        target = self._addressed("project_id", "domain_id")
        actor = self._addressed("user_id", "group_id")
        role = self.addressed["role_id"].record if "role_id" in self.addressed else None
        found: dict[str, object] = {
            "domain_id": target.domain_id if target else None,
            "actor_domain_id": actor.domain_id if actor else None,
            **rule_target(role if isinstance(role, Role) else None),
        }
        return found | {name: text for name, text in self.kwargs.items() if name != "domain_id"}

    def _addressed(self, *names: str) -> Any:
        return next((self.addressed[name] for name in names if name in self.addressed), None)

    def where(self) -> Target:
        """Return the actor and the target as arguments of the services."""
        records = {found.kind: found.record for found in self.addressed.values() if found.kind != "role"}
        return cast("Target", {**records, "system": self.system, "inherited": self.inherited})


class GrantsView(_GrantsView):
    """``/v3/{projects|domains}/{id}/{users|groups}/{id}/roles``."""

    rules = {"GET": "identity:list_grants"}

    def get(self, request: Request, **kwargs: str) -> Response:
        items = ROLE.shapes(self, [*granted_roles(**self.where())])
        path = request.path.partition("/v3")[2].rstrip("/")
        return Response({"roles": items, "links": list_links(request, path)})


class InheritedGrantsView(GrantsView):
    """``/v3/OS-INHERIT/{projects|domains}/{id}/{users|groups}/{id}/roles/inherited_to_projects``."""

    inherited = True


class SystemGrantsView(GrantsView):
    """``/v3/system/users/{id}/roles``."""

    rules = {"GET": "identity:list_system_grants_for_user"}
    system = True


class GroupSystemGrantsView(SystemGrantsView):
    """``/v3/system/groups/{id}/roles``."""

    rules = {"GET": "identity:list_system_grants_for_group"}


class GrantView(_GrantsView):
    """``/v3/{projects|domains}/{id}/{users|groups}/{id}/roles/{id}``."""

    rules = {"GET": "identity:check_grant", "PUT": "identity:create_grant", "DELETE": "identity:revoke_grant"}

    def get(self, request: Request, **kwargs: str) -> Response:
        """Answer 204 if the role is assigned in this way, otherwise 404."""
        if not has_grant(self.role(), **self.where()):
            target = self._addressed("project_id", "domain_id")
            actor = self._addressed("user_id", "group_id")
            raise NotFoundError(no_assignment(self.role(), actor.record, target.record if target else "system"))
        return Response(status=204)

    def put(self, request: Request, **kwargs: str) -> Response:
        """Assign the role; idempotent."""
        grant(self.role(), **self.where())
        return Response(status=204)

    def delete(self, request: Request, **kwargs: str) -> Response:
        """Revoke the role; effective immediately."""
        revoke_grant(self.role(), **self.where())
        return Response(status=204)


class InheritedGrantView(GrantView):
    """``/v3/OS-INHERIT/{projects|domains}/{id}/{users|groups}/{id}/roles/{id}/inherited_to_projects``."""

    inherited = True


class SystemGrantView(GrantView):
    """``/v3/system/users/{id}/roles/{id}``."""

    rules = {
        "GET": "identity:check_system_grant_for_user",
        "PUT": "identity:create_system_grant_for_user",
        "DELETE": "identity:revoke_system_grant_for_user",
    }
    system = True


class GroupSystemGrantView(SystemGrantView):
    """``/v3/system/groups/{id}/roles/{id}``."""

    rules = {
        "GET": "identity:check_system_grant_for_group",
        "PUT": "identity:create_system_grant_for_group",
        "DELETE": "identity:revoke_system_grant_for_group",
    }


_TARGETS = ("/projects/(?P<project_id>[^/]+)", "/domains/(?P<domain_id>[^/]+)")
_ACTORS = ("/users/(?P<user_id>[^/]+)", "/groups/(?P<group_id>[^/]+)")
_ROLE = "/(?P<role_id>[^/]+)"
_HERE = [f"{target}{actor}/roles" for target in _TARGETS for actor in _ACTORS]
_BELOW = [f"/OS-INHERIT{where}" for where in _HERE]
_OF_USER, _OF_GROUP = (f"/system{actor}/roles" for actor in _ACTORS)
ROUTES: dict[str, type[ServiceView]] = {
    **dict.fromkeys(_HERE, GrantsView),
    **dict.fromkeys((where + _ROLE for where in _HERE), GrantView),
    **dict.fromkeys((f"{where}/inherited_to_projects" for where in _BELOW), InheritedGrantsView),
    **dict.fromkeys((f"{where}{_ROLE}/inherited_to_projects" for where in _BELOW), InheritedGrantView),
    _OF_USER: SystemGrantsView,
    _OF_USER + _ROLE: SystemGrantView,
    _OF_GROUP: GroupSystemGrantsView,
    _OF_GROUP + _ROLE: GroupSystemGrantView,
}
"""Path after ``/v3`` → view."""
