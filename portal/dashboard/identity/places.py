"""Targets of role assignments: a project, a domain or the system, each with its member pages and policy rules."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.urls import reverse

from portal.dashboard.frame.pages import Page
from portal.dashboard.identity.base import DomainPage, IdentityPage, ProjectPage
from provisioning.identity import policy
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.roles.grant_target import Place
from provisioning.identity.roles.safeguards import roles_beyond_domains
from provisioning.identity.selectors import dashboard_lists
from provisioning.identity.selectors.lookups import rule_target

GRANT, REVOKE = "identity:create_grant", "identity:revoke_grant"
_ON_SYSTEM = {GRANT: "identity:create_system_grant_for_{}", REVOKE: "identity:revoke_system_grant_for_{}"}
_PREFIX = {Project: "", Domain: "domain_"}
WHOLE_CLOUD = "the whole cloud"


class PlacePage(IdentityPage):
    """Base of the pages about members of a target. ``rule`` is checked for the role ``reader``, to learn whether the
    caller may assign any role.
    """

    rule = GRANT
    kind: ClassVar[str]

    @property
    def place(self) -> Place:
        """The target. Raises NotFoundError if it does not exist."""
        raise NotImplementedError

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Return the policy target for the assignment of the role ``reader`` to an actor in the target's domain."""
        target = super().target(**kwargs)
        return {**target, **least_grant(target.get("domain_id"))}


class OfProject(PlacePage, ProjectPage):
    """Base of the pages of a project's members."""

    @property
    def place(self) -> Project:
        return self.record


class OfDomain(PlacePage, DomainPage):
    """Base of the pages of a domain's members."""

    @property
    def place(self) -> Domain:
        return self.record


class OfSystem(PlacePage):
    """Base of the pages of the system's members."""

    section = "system"
    kind = "system"
    rule = "identity:create_system_grant_for_user"
    back_to = "dashboard:system"

    @property
    def place(self) -> Place:
        return "system"


def name_of(place: Place) -> str:
    return WHOLE_CLOUD if isinstance(place, str) else place.name


def address_of(place: Place, name: str, *ids: object) -> str:
    """Return the address of a member page of the target: ``member_add``, ``member_roles`` …"""
    if isinstance(place, str):
        return reverse(f"dashboard:system_{name}", args=ids)
    return reverse(f"dashboard:{_PREFIX[type(place)]}{name}", args=[place.pk, *ids])


def page_of(place: Place) -> str:
    """Return the address of the target's own page."""
    if isinstance(place, str):
        return reverse("dashboard:system")
    kind = "project" if isinstance(place, Project) else "domain"
    return reverse(f"dashboard:{kind}_page", args=[place.pk])


def domain_of(place: Place) -> str | None:
    if isinstance(place, str):
        return None
    return place.domain_id if isinstance(place, Project) else place.id


def least_grant(domain_id: object) -> dict[str, object]:
    """Return the policy target for a grant of the role ``reader``: a caller who may assign any role in this domain may
    assign this one.
    """
    return {"actor_domain_id": domain_id, "role_domain_id": None, "target.role.name": "reader", "beyond_domains": False}


def may_grant(page: Page, rule: str, place: Place, *, kind: str = "user") -> bool:
    """Whether the caller may assign (``GRANT``) or revoke (``REVOKE``) any role on the target."""
    domain_id = domain_of(place)
    return page.allows(_rule(rule, place, kind), {"domain_id": domain_id, **least_grant(domain_id)})


def offered_roles(page: Page, place: Place, held: Iterable[Role] = ()) -> list[Role]:
    """Return the global roles that the caller may assign on the target, and the roles that are already assigned
    (``held``), by name.
    """
    kept = {role.id for role in held}
    offered = {role.id for role in offered_in(page, domain_of(place), _rule(GRANT, place, "user"))}
    return [role for role in dashboard_lists.roles_to_choose() if role.id in offered | kept]


def offered_in(page: Page, domain_id: str | None, rule: str = GRANT) -> list[Role]:
    """Return the global roles that the caller may assign in this domain, by name."""
    target, beyond = {"domain_id": domain_id, **least_grant(domain_id)}, roles_beyond_domains()
    roles = dashboard_lists.roles_to_choose()
    return [role for role in roles if page.allows(rule, {**target, **rule_target(role, beyond)})]


def check_grants(page: Page, rule: str, place: Place, actor: User | Group, roles: Iterable[Role]) -> None:
    """Raise ForbiddenError if the caller may not assign, or revoke, one of these roles on the target."""
    beyond = roles_beyond_domains()
    for role in roles:
        target = {
            "domain_id": domain_of(place),
            "project_id": place.id if isinstance(place, Project) else None,
            "actor_domain_id": actor.domain_id,
            **rule_target(role, beyond),
        }
        policy.enforce(page.context, _rule(rule, place, "group" if isinstance(actor, Group) else "user"), target)


def _rule(rule: str, place: Place, kind: str) -> str:
    """Return the rule for grants on a project or a domain, or the rule for grants on the system."""
    return _ON_SYSTEM[rule].format(kind) if isinstance(place, str) else rule
