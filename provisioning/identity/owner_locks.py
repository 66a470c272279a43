"""Locks on projects and users, so that nothing is created for an owner that is being deleted."""

import uuid
from collections.abc import Sequence

from django.db.models import Model

from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Project, User


def lock_rows(model: type[Model], keys: Sequence[uuid.UUID | str], *, no_key: bool = True) -> set[uuid.UUID | str]:
    """Lock these rows until the caller's transaction ends; return the keys of those that exist.

    ``no_key`` False: nor can others make rows that point to them meanwhile.

    Rows are locked in the order of their keys; SQLite, where one transaction writes at a time, is only asked.
    """
    rows = model._default_manager.select_for_update(no_key=no_key).filter(pk__in=keys)
    return set(rows.order_by("pk").values_list("pk", flat=True))


def lock_project(project_id: uuid.UUID) -> None:
    """Lock a project until the caller's transaction ends; NotFoundError when it is gone."""
    if not lock_rows(Project, [project_id]):
        raise NotFoundError(f"Could not find project: {project_id.hex}.")


def lock_user(user_id: uuid.UUID) -> None:
    """Lock a user until the caller's transaction ends; NotFoundError when it is gone."""
    if not lock_rows(User, [user_id]):
        raise NotFoundError(f"Could not find user: {user_id.hex}.")
