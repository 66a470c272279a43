"""Nothing is made for what goes at the same moment: who makes something and who deletes its owner take turns."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db.models import Model

from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Project, User


def hold(model: type[Model], keys: Sequence[uuid.UUID | str]) -> set[uuid.UUID | str]:
    """Let nobody else hold or delete these rows before the caller's transaction ends; return the keys of those there.

    Rows are locked in the order of their keys; SQLite, where one transaction writes at a time, is only asked.
    """
    rows = model._default_manager.select_for_update(no_key=True).filter(pk__in=keys)
    return set(rows.order_by("pk").values_list("pk", flat=True))


def hold_project(project_id: uuid.UUID) -> None:
    """Keep a project until the caller's transaction ends; NotFoundError when it is gone."""
    if not hold(Project, [project_id]):
        raise NotFoundError(f"Could not find project: {project_id.hex}.")


def hold_user(user_id: uuid.UUID) -> None:
    """Keep a user until the caller's transaction ends; NotFoundError when it is gone."""
    if not hold(User, [user_id]):
        raise NotFoundError(f"Could not find user: {user_id.hex}.")
