"""Creates, updates and deletes namespaces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.metadefs.models import MetadefNamespace
from provisioning.metadefs.selectors import owner_of, sees_all
from provisioning.metadefs.services import associations, contents
from provisioning.metadefs.services.checks import MOST_NAMESPACES, check_deletable, check_room, check_text, owned

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Contents:
    """The contents of a new namespace, in the form of the API."""

    associations: Sequence[Values] = ()
    properties: Mapping[str, Values] = field(default_factory=dict)
    objects: Sequence[Values] = ()
    tags: Sequence[str] = ()


def create(context: RequestContext, values: Values, inside: Contents) -> MetadefNamespace:
    """Create a namespace with its contents, in one transaction.

    ``values``: ``namespace``, optionally ``display_name description visibility protected owner``. Raises ConflictError
    if the namespace exists in any project or a name occurs twice in ``inside``; ForbiddenError for another owner;
    TooLargeError.
    """
    columns = _columns(context, values, owner_of(context))
    with transaction.atomic():
        made = make(columns)
        fill(made, inside)
    return made


def make(columns: Values) -> MetadefNamespace:
    """Create the row of a namespace, in the caller's transaction."""
    check_room(MetadefNamespace.objects.filter(owner=columns["owner"]), 1, MOST_NAMESPACES, "namespaces of one owner")
    try:
        with transaction.atomic():
            return MetadefNamespace.objects.create(**columns)
    except IntegrityError:
        raise _taken(columns["namespace"]) from None


def fill(namespace: MetadefNamespace, inside: Contents) -> None:
    """Create the contents of a new namespace, in the caller's transaction."""
    for association in inside.associations:
        associations.write(namespace, association)
    contents.write_properties(namespace, inside.properties)
    contents.write_objects(namespace, inside.objects)
    contents.write_tags(namespace, inside.tags)


def update(context: RequestContext, name: str, values: Values) -> MetadefNamespace:
    """Replace the attributes of a namespace; omitted attributes get the defaults of a new namespace.

    Raises NotFoundError, ForbiddenError, ConflictError if the new name exists.
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
    """Delete a namespace and its contents. Raises NotFoundError, ForbiddenError if it is protected."""
    with transaction.atomic():
        namespace = owned(context, name)
        check_deletable(namespace, f"namespace {namespace.namespace}")
        namespace.delete()


def _columns(context: RequestContext, values: Values, owner: str) -> dict[str, Any]:
    specified_owner = values.get("owner") or owner
    if specified_owner != owner and not sees_all(context):
        raise ForbiddenError("You are not permitted to name another project as the owner.", field="owner")
    return {
        "namespace": _check_name(values["namespace"]),
        "display_name": values.get("display_name"),
        "description": values.get("description"),
        "visibility": values.get("visibility") or MetadefNamespace.Visibility.PRIVATE,
        "protected": bool(values.get("protected")),
        "owner": specified_owner,
    }


def _check_name(name: str) -> str:
    """Return the name. Raises InvalidInputError if it cannot be part of a URL path."""
    if "/" in name or name in {".", ".."}:
        raise InvalidInputError(
            "The name of a namespace must not contain a slash and must not be . or ..", field="namespace"
        )
    return check_text("namespace", name)


def _taken(name: str) -> ConflictError:
    return ConflictError(f"The metadata definition namespace={name} already exists.", field="namespace")
