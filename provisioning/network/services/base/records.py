"""Common steps of writing records of the Networking API: lock, revision and deletion."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model, QuerySet, UUIDField, Value
from django.utils import timezone

from provisioning.common.database.prepared import Prepared, PreparedDelete, PreparedDeleteReturning
from provisioning.common.database.retry import when_broken_off
from provisioning.network.errors import RecordNotFoundError, RevisionNumberConstraintFailedError
from provisioning.network.models import RbacPolicy, Tag
from provisioning.quotas.services import ledger

R = TypeVar("R", bound=Model)


@when_broken_off
@transaction.atomic
def create_all(makers: Sequence[Callable[[], Any]], requested: Mapping[uuid.UUID, Mapping[str, int]]) -> list[Any]:
    """Create several records, all or none, and return them in order.

    The quotas for all of them (``requested``: project → resource → amount) are checked before the first one is created.
    Raises OverQuotaError.
    """
    for project_id, amounts in requested.items():
        ledger.check_room(project_id, amounts)
    return [make() for make in makers]


def lock(row: R, revision: int | None = None) -> R:
    """Return the current record, locked until the transaction ends; other records may still begin to refer to it.

    Raises RevisionNumberConstraintFailedError for another revision than ``revision``, and RecordNotFoundError if the
    record was deleted.
    """
    return _locked(row, revision, no_key=True)


def lock_to_delete(row: R, revision: int | None = None) -> R:
    """As ``lock``, but no other record can begin to refer to the record, so that checks for references are final."""
    return _locked(row, revision, no_key=False)


def _locked(row: R, revision: int | None, *, no_key: bool) -> R:
    fresh: Any = _lock_one(type(row), no_key).first(key=row.pk)
    if fresh is None:
        raise RecordNotFoundError(type(row).__name__, row.pk)
    if revision is not None and fresh.revision_number != revision:
        msg = f"Constrained to {revision}, but current revision is {fresh.revision_number}"
        raise RevisionNumberConstraintFailedError(msg)
    result: R = fresh
    return result


@cache
def _lock_one(model: type[Model], no_key: bool) -> Prepared[Any]:  # noqa: FBT001 - a part of the key
    def rows(key: Value) -> QuerySet[Any]:
        return model._default_manager.select_for_update(no_key=no_key, of=("self",)).filter(pk=key).order_by()

    return Prepared(rows, key=model._meta.pk)


def write(row: Any, changes: Mapping[str, object]) -> set[str]:
    """Set columns of a locked record and increase its revision; return the names of those that changed."""
    changed = {name for name, value in changes.items() if getattr(row, name) != value}
    for name in changed:
        setattr(row, name, changes[name])
    if changed:
        touch(row, *changed)
    return changed


def touch(row: Any, *columns: str) -> None:
    """Save columns of a locked record, with a new revision and the time of the change."""
    row.revision_number += 1
    row.updated_at = timezone.now()
    row.save(update_fields=[*columns, "revision_number", "updated_at"])


def remove(row: Any) -> None:
    """Delete a record locked by ``lock_to_delete``, with its tags, its RBAC policies and its quota."""
    release(row)
    row.delete()


def release(row: Any) -> None:
    """Delete the tags, the RBAC policies and the quota of a record that is about to be deleted."""
    _DELETE_TAGS(key=row.pk)
    ledger.release(row.pk)
    for policy, target in sorted(_DELETE_POLICIES(key=row.pk)):
        if target != RbacPolicy.EVERYBODY:
            ledger.release(policy)


_DELETE_TAGS = PreparedDelete(lambda key: Tag.objects.filter(resource_id=key), key=UUIDField())
_DELETE_POLICIES = PreparedDeleteReturning(
    lambda key: RbacPolicy.objects.filter(object_id=key).values_list("pk", "target_project"), key=UUIDField()
)
