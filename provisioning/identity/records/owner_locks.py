"""Locks on projects and users, so that nothing is created for an owner that is being deleted."""

import functools
import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import Model, QuerySet

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Project, User


def lock_rows(model: type[Model], keys: Sequence[uuid.UUID | str], *, no_key: bool = True) -> set[uuid.UUID | str]:
    """Lock rows until the caller's transaction ends; return the keys of existing rows.

    With ``no_key`` False, new rows that refer to the locked rows are blocked, too. Rows are locked in the order of
    their keys. On SQLite, which allows only one writer, the rows are only read.
    """
    if len(keys) == 1:
        return set(_lock_one(model, no_key)(key=keys[0]))
    return set(_rows(model, no_key).filter(pk__in=keys).order_by("pk"))


def _rows(model: type[Model], no_key: bool) -> QuerySet[Model, Any]:  # noqa: FBT001 - named so by Django
    return model._default_manager.select_for_update(no_key=no_key).values_list("pk", flat=True)


@functools.cache
def _lock_one(model: type[Model], no_key: bool) -> Prepared[Any]:  # noqa: FBT001 - as above
    return Prepared(lambda key: _rows(model, no_key).filter(pk=key), key=model._meta.pk)


def lock_project(project_id: uuid.UUID) -> None:
    """Lock a project until the caller's transaction ends.  Raises NotFoundError if it was deleted."""
    if not lock_rows(Project, [project_id]):
        raise NotFoundError(f"Could not find project: {project_id.hex}.")


def lock_user(user_id: uuid.UUID) -> None:
    """Lock a user until the caller's transaction ends.  Raises NotFoundError if it was deleted."""
    if not lock_rows(User, [user_id]):
        raise NotFoundError(f"Could not find user: {user_id.hex}.")
