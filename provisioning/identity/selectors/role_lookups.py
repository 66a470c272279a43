"""Roles and implied roles."""

import uuid
from collections.abc import Collection

from provisioning.identity.models import ImpliedRole, Role
from provisioning.identity.roles.role_reach import roles_beyond_domains


def roles(*, domain_id: str | None = None) -> list[Role]:
    """Return the global roles by name, or those of a domain."""
    if domain_id is not None and "\0" in domain_id:
        return []
    return list(Role.objects.filter(domain=domain_id).order_by("name", "id"))


def inferences() -> list[tuple[Role, list[Role]]]:
    """Return each role that implies others, by name, with its directly implied roles, by name."""
    result: dict[Role, list[Role]] = {}
    rows = ImpliedRole.objects.select_related("prior", "implied").order_by("prior__name", "prior_id", "implied__name")
    for row in rows:
        result.setdefault(row.prior, []).append(row.implied)
    return list(result.items())


def implied_roles(prior: Role) -> list[Role]:
    """Return the roles that a role implies directly, by name."""
    return list(Role.objects.filter(implied_by__prior=prior).order_by("name", "id"))


def implies(prior: Role, implied: Role) -> bool:
    """Return whether the role ``prior`` implies the role ``implied`` directly."""
    return ImpliedRole.objects.filter(prior=prior, implied=implied).exists()


def rule_target(role: Role | None, beyond: Collection[uuid.UUID] | None = None) -> dict[str, object]:
    """Return the attributes of a role for policy checks. None, a missing role, is treated like ``admin``.

    ``beyond``: the ids of the roles that apply beyond domains, if already known.
    """
    return {
        "role_domain_id": role.domain_id if role is not None else None,
        "target.role.name": role.name if role is not None else None,
        "beyond_domains": role is None or role.id in (roles_beyond_domains() if beyond is None else beyond),
    }


def counts_beyond_domains(role: Role) -> bool:
    """Return whether the role is ``admin`` or ``service``, or implies one of them directly or indirectly."""
    return role.id in roles_beyond_domains()
