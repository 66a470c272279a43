"""Tags of servers; the list on the server and the rows for filters are written together."""

import uuid
from collections.abc import Callable, Iterable, Sequence

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance, InstanceTag
from provisioning.compute.services.instances import write
from provisioning.compute.states import VmState

MOST = 50
"""Maximum number of tags of a server."""
LONGEST = 60
_MAY_CHANGE = (VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.STOPPED)


def check_tags(tags: Sequence[str]) -> list[str]:
    """Return valid tags without duplicates. Raises InvalidInputError for ``tags``."""
    kept = list(dict.fromkeys(tags))
    if len(kept) > MOST:
        raise InvalidInputError(f"The number of tags exceeded the per-server limit {MOST}", field="tags")
    for tag in kept:
        if not 1 <= len(tag) <= LONGEST or "/" in tag or "," in tag or not tag.isprintable():
            raise InvalidInputError(
                f"Tag '{tag[:LONGEST]}' is invalid. It must be a non empty string without characters '/' and ',',"
                f" of at most {LONGEST} characters.",
                field="tags",
            )
    return kept


def check_may_tag(instance: Instance, action: str) -> None:
    """Raise InstanceBusyError when the tags cannot change now."""
    if instance.vm_state not in _MAY_CHANGE:
        raise InstanceBusyError(action, instance.id, instance.vm_state, None)


def write_tag_rows(instances: Iterable[Instance]) -> None:
    """Write the tag rows of new servers, inside the caller's transaction."""
    rows = [InstanceTag(instance=instance, tag=tag) for instance in instances for tag in instance.tags]
    if rows:
        InstanceTag.objects.bulk_create(rows)


def set_tags(context: RequestContext, instance_id: uuid.UUID | str, tags: Sequence[str]) -> Instance:
    """Replace a server's tags. Raises NotFoundError, InvalidInputError, InstanceBusyError, ConflictError."""
    kept = check_tags(tags)
    return _change(context, instance_id, lambda _: kept, "update tags")


def delete_tags(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Remove a server's tags. Raises the errors of ``set_tags``."""
    return _change(context, instance_id, lambda _: [], "delete tags")


def add_tag(context: RequestContext, instance_id: uuid.UUID | str, tag: str) -> bool:
    """Add a tag and return True; False when the server already has it. Raises the errors of ``set_tags``."""
    added = False

    def with_it(tags: list[str]) -> list[str]:
        nonlocal added
        added = tag not in tags
        return check_tags([*tags, tag])

    _change(context, instance_id, with_it, "update tag")
    return added


def delete_tag(context: RequestContext, instance_id: uuid.UUID | str, tag: str) -> Instance:
    """Remove a tag. Raises the errors of ``set_tags``, and NotFoundError for a tag that the server does not have."""

    def without(tags: list[str]) -> list[str]:
        if tag not in tags:
            raise NotFoundError(f"Server {instance_id} has no tag '{tag[:LONGEST]}'")
        return [each for each in tags if each != tag]

    return _change(context, instance_id, without, "delete tag")


def _change(
    context: RequestContext, instance_id: uuid.UUID | str, change: Callable[[list[str]], list[str]], action: str
) -> Instance:
    def columns(instance: Instance) -> dict[str, list[str]]:
        check_may_tag(instance, action)
        tags = change(list(instance.tags))
        return {} if tags == instance.tags else {"tags": tags}

    def rows(instance: Instance) -> None:
        InstanceTag.objects.filter(instance=instance).exclude(tag__in=instance.tags).delete()
        InstanceTag.objects.bulk_create(
            [InstanceTag(instance=instance, tag=tag) for tag in instance.tags], ignore_conflicts=True
        )

    return write(context, instance_id, columns, rows)
