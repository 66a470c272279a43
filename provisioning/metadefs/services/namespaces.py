"""Namespaces: made with all that stands in them, changed, deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.metadefs.models import MetadefNamespace
from provisioning.metadefs.selectors import owner_of, sees_all
from provisioning.metadefs.services import associations, contents
from provisioning.metadefs.services.access import check_deletable, owned
from provisioning.metadefs.services.bounds import MOST_NAMESPACES, check_room
from provisioning.metadefs.services.names import check_text

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Contents:
    """What a new namespace begins with, in the API's words."""

    associations: Sequence[Values] = ()
    properties: Mapping[str, Values] = field(default_factory=dict)
    objects: Sequence[Values] = ()
    tags: Sequence[str] = ()


def create(context: RequestContext, values: Values, inside: Contents) -> MetadefNamespace:
    """Make a namespace with its contents, all or nothing.

    ``values``: ``namespace``, and any of ``display_name description visibility protected owner``.  Raises
    ConflictError when there is one of that name, here or in another project, or twice the same inside; ForbiddenError
    for another's as owner; TooLargeError.
    """
    columns = _columns(context, values, owner_of(context))
    with transaction.atomic():
        made = make(columns)
        fill(made, inside)
    return made


def make(columns: Values) -> MetadefNamespace:
    """Write the record of a namespace, in the caller's transaction."""
    check_room(MetadefNamespace.objects.filter(owner=columns["owner"]), 1, MOST_NAMESPACES, "namespaces of one owner")
    try:
        with transaction.atomic():
            return MetadefNamespace.objects.create(**columns)
    except IntegrityError:
        raise _taken(columns["namespace"]) from None


def fill(namespace: MetadefNamespace, inside: Contents) -> None:
    """Write what stands in a new namespace, in the caller's transaction."""
    for association in inside.associations:
        associations.write(namespace, association)
    contents.write_properties(namespace, inside.properties)
    contents.write_objects(namespace, inside.objects)
    contents.write_tags(namespace, inside.tags)


def update(context: RequestContext, name: str, values: Values) -> MetadefNamespace:
    """Write a namespace's own attributes anew: what is not said is as in a new one.

    Raises NotFoundError, ForbiddenError, ConflictError when another has the new name.
    """
    columns = _columns(context, values, owner_of(context))
    with transaction.atomic():
        namespace = owned(context, name)
        for column, value in columns.items():
            setattr(namespace, column, value)
        try:
            with transaction.atomic():
                namespace.save(update_fields=[*columns, "updated_at"])
        except IntegrityError:
            raise _taken(columns["namespace"]) from None
    return namespace


def delete(context: RequestContext, name: str) -> None:
    """Delete a namespace with all in it; NotFoundError, ForbiddenError when it is protected."""
    with transaction.atomic():
        namespace = owned(context, name)
        check_deletable(namespace, f"namespace {namespace.namespace}")
        namespace.delete()


def _columns(context: RequestContext, values: Values, owner: str) -> dict[str, Any]:
    given = values.get("owner") or owner
    if given != owner and not sees_all(context):
        raise ForbiddenError("You are not permitted to name another project as the owner.", field="owner")
    return {
        "namespace": _check_name(values["namespace"]),
        "display_name": values.get("display_name"),
        "description": values.get("description"),
        "visibility": values.get("visibility") or MetadefNamespace.Visibility.PRIVATE,
        "protected": bool(values.get("protected")),
        "owner": given,
    }


def _check_name(name: str) -> str:
    """Return a name that can stand in an address; InvalidInputError."""
    if "/" in name or name in {".", ".."}:
        raise InvalidInputError(
            "The name of a namespace has no slash in it, and is neither . nor ..", field="namespace"
        )
    return check_text("namespace", name)


def _taken(name: str) -> ConflictError:
    return ConflictError(f"The metadata definition namespace={name} already exists.", field="namespace")
