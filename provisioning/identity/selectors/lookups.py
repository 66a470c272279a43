"""Look-ups by id or name."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

from django.db.models import CharField, Field, Model, QuerySet, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import (
    Domain,
    Group,
    GroupMembership,
    ImpliedRole,
    Project,
    Role,
    RoleAssignment,
    User,
)
from provisioning.identity.roles.safeguards import roles_beyond_domains

AT_ONCE = 500
"""Number of names in one query."""
DELETED_USER = "deleted user"
"""The label of a user without a record."""

Named = TypeVar("Named", User, Project, Group)
Record = TypeVar("Record", bound=Domain | Group | Project | Role | User)
_BESIDE: dict[type[Model], tuple[str, ...]] = {
    Domain: (),
    Group: ("domain",),
    Project: ("domain",),
    Role: ("domain",),
    User: ("domain", "default_project"),
}


def find_by_name(model: type[Named], names: Mapping[str, Collection[str]]) -> dict[tuple[str, str], Named]:
    """Return (domain id, name) → record. ``names``: domain id → names."""
    result: dict[tuple[str, str], Named] = {}
    for domain_id, those in names.items():
        ordered = sorted(name for name in those if "\0" not in name)
        for begin in range(0, len(ordered), AT_ONCE):
            part = model._default_manager.filter(domain=domain_id, name__in=ordered[begin : begin + AT_ONCE])
            result |= {(domain_id, record.name): record for record in part}
    return result


def memberships_in(groups: Collection[uuid.UUID]) -> set[tuple[uuid.UUID, uuid.UUID]]:
    """Return the members of these groups, as pairs of group and user id."""
    return set(GroupMembership.objects.filter(group__in=groups).values_list("group_id", "user_id"))


def roles_given_on(projects: Collection[uuid.UUID]) -> set[tuple[uuid.UUID, uuid.UUID | None, uuid.UUID]]:
    """Return the direct roles of users on these projects, as (project, user, role) ids."""
    assignments = RoleAssignment.objects.filter(project__in=projects, user__isnull=False, inherited=False)
    return set(assignments.values_list("project_id", "user_id", "role_id"))


def names_of_projects(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return id → name, for existing projects."""
    return dict(Project.objects.filter(pk__in=ids).values_list("pk", "name"))


def role_records(names: Iterable[str]) -> list[Role]:
    """Return the roles with these names, by name."""
    ordered_names = sorted(names)
    return (
        _roles(len(ordered_names))(**{f"name{at}": name for at, name in enumerate(ordered_names)})
        if ordered_names
        else []
    )


@cache
def _roles(count: int) -> Prepared[Role]:
    """Return the prepared query for ``count`` role names, passed as ``name0``, ``name1`` …"""
    return Prepared(
        lambda **names: Role.objects.filter(name__in=list(names.values()), domain=None).order_by("name"),
        **{f"name{at}": CharField() for at in range(count)},
    )


def by_id(model: type[Record], record_id: str | uuid.UUID | None) -> Record | None:
    """Return the record with this id, with its domain, or None."""
    key: str | uuid.UUID | None = read_id(record_id)
    if model is Domain and isinstance(record_id, str) and "\0" not in record_id:  # the id of a domain may be any text
        key = record_id
    result: Record | None = _BY_ID[model].first(key=key) if key else None
    return result


def existing(model: type[Record], record_id: str | uuid.UUID) -> Record:
    """Return the record with this id.  Raises NotFoundError with Keystone's message."""
    result = by_id(model, record_id)
    if result is None:
        raise NotFoundError(f"Could not find {model.__name__.lower()}: {str(record_id)[:64]}.")
    return result


def record_by(
    model: type[Record],
    *,
    record_id: str | None = None,
    name: str | None = None,
    domain_id: str | None = None,
    domain_name: str | None = None,
) -> Record | None:
    """Return the record with this id or, without an id, with this name; None if there is none.

    A name is searched in the domain with this id or name, except the name of a domain.
    """
    if record_id is not None:
        return by_id(model, record_id)
    if name is None or "\0" in name:
        return None
    place = {"domain": domain_id} if domain_id is not None else {"domain__name": domain_name}
    result: Record | None = _rows(model).filter(name=name, **({} if model is Domain else place)).first()
    return result


def _rows(model: type[Model]) -> QuerySet[Any]:
    return model._default_manager.select_related(*_BESIDE[model])


def _prepared(model: type[Model]) -> Prepared[Any]:
    key: Field[Any, Any] = CharField() if model is Domain else UUIDField()
    return Prepared(lambda key: _rows(model).filter(id=key), key=key)


_BY_ID = {model: _prepared(model) for model in _BESIDE}


def users_by_id(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, User]:
    """Return id → user, for existing users."""
    return User.objects.in_bulk(list(ids))


def projects_by_id(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, Project]:
    """Return id → project, for existing projects."""
    return Project.objects.in_bulk(list(ids))


def user_names(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return the names of the users with these ids that still exist."""
    return dict(User.objects.filter(id__in=set(ids)).values_list("id", "name"))


def user_labels(ids: Iterable[uuid.UUID]) -> list[tuple[uuid.UUID, str]]:
    """Return ids and different labels, in their order: names, with the domain where two users have the same name, and
    with the beginning of the id for deleted users, who are last.
    """
    every = set(ids)
    rows = User.objects.filter(id__in=every).values_list("id", "name", "domain__name")
    known = {key: (name, domain) for key, name, domain in rows}
    repeated = Counter(name for name, _ in known.values())
    labels = {key: f"{name} ({domain})" if repeated[name] > 1 else name for key, (name, domain) in known.items()}
    labels |= {key: f"{DELETED_USER} ({str(key)[:8]})" for key in every - known.keys()}
    return sorted(labels.items(), key=lambda item: (item[0] not in known, item[1].casefold(), item[0]))


def users_named(text: str) -> QuerySet[User]:
    """Return the users with this text in their name."""
    return User.objects.filter(name__icontains=text)


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
