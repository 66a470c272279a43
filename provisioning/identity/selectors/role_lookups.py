"""Roles and what they imply."""

from provisioning.identity.last_admin import roles_bringing_admin
from provisioning.identity.models import ImpliedRole, Role


def roles(*, domain_id: str | None = None) -> list[Role]:
    """Return the roles of the whole cloud by name, or those of one domain."""
    if domain_id is not None and "\0" in domain_id:
        return []
    return list(Role.objects.filter(domain=domain_id).order_by("name", "id"))


def inferences() -> list[tuple[Role, list[Role]]]:
    """Return every role that implies others, by name, with those that it implies itself, by name."""
    found: dict[Role, list[Role]] = {}
    rows = ImpliedRole.objects.select_related("prior", "implied").order_by("prior__name", "prior_id", "implied__name")
    for row in rows:
        found.setdefault(row.prior, []).append(row.implied)
    return list(found.items())


def implied_roles(prior: Role) -> list[Role]:
    """Return the roles that this one implies itself, by name."""
    return list(Role.objects.filter(implied_by__prior=prior).order_by("name", "id"))


def implies(prior: Role, implied: Role) -> bool:
    """Whether this role implies that one itself."""
    return ImpliedRole.objects.filter(prior=prior, implied=implied).exists()


def brings_admin(role: Role) -> bool:
    """Whether the role is ``admin`` or implies it, in whatever way."""
    return role.id in roles_bringing_admin()
