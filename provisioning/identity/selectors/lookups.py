"""Look-ups by id or name."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any, TypeVar

from django.db.models import CharField, Field, Model, QuerySet, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Domain, Group, Project, Role, User

Record = TypeVar("Record", bound=Domain | Group | Project | Role | User)
_BESIDE: dict[type[Model], tuple[str, ...]] = {
    Domain: (),
    Group: ("domain",),
    Project: ("domain",),
    Role: ("domain",),
    User: ("domain", "default_project"),
}


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
    found: Record | None = _BY_ID[model].first(key=key) if key else None
    return found


def existing(model: type[Record], record_id: str | uuid.UUID) -> Record:
    """Return the record with this id.  Raises NotFoundError with Keystone's message."""
    found = by_id(model, record_id)
    if found is None:
        raise NotFoundError(f"Could not find {model.__name__.lower()}: {str(record_id)[:64]}.")
    return found


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
    found: Record | None = _rows(model).filter(name=name, **({} if model is Domain else place)).first()
    return found


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
