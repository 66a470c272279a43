"""Checks before a change of definitions: the caller's rights and the names."""

from django.db.models import QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError, TooLargeError
from provisioning.common.values.text import has_control_characters
from provisioning.metadefs.models import MetadefNamespace
from provisioning.metadefs.selectors import namespace_for, owns

MOST_NAMESPACES = 1000
"""Namespaces of one owner."""
MOST = 1000
"""Properties of one namespace; also its objects, its tags and its associations."""
MOST_TYPES = 1000
"""Maximum number of resource types in the cloud."""


def owned(context: RequestContext, name: str) -> MetadefNamespace:
    """Return a namespace that the caller may change, and lock its row until the transaction ends.

    Raises NotFoundError, and ForbiddenError for a visible namespace of another owner.
    """
    namespace = namespace_for(context, name)
    if not owns(context, namespace):
        raise ForbiddenError("You are not authorized to complete this action.")
    metadef_namespace = MetadefNamespace.objects.select_for_update().filter(pk=namespace.pk).first()
    if metadef_namespace is None:
        raise NotFoundError(f"Metadata definition namespace={name[:80]} was not found.")
    return metadef_namespace


def check_deletable(namespace: MetadefNamespace, what: str) -> None:
    """Raise ForbiddenError if the namespace is protected. ``what`` names the object of the deletion in the message."""
    if namespace.protected:
        raise ForbiddenError(f"Metadata definition {what[:120]} is protected and cannot be deleted.")


def check_text(field: str, name: str) -> str:
    """Return the name. Raises InvalidInputError if it is blank or has control characters."""
    if not name.strip() or has_control_characters(name):
        raise InvalidInputError(f"The name {name!r:.80} is empty or has control characters.", field=field)
    return name


def check_room(rows: QuerySet, more: int, most: int, what: str) -> None:  # type: ignore[type-arg]
    """Raise TooLargeError if ``rows`` and ``more`` new rows exceed ``most``."""
    if rows.count() + more > most:
        raise TooLargeError(f"There are at most {most} {what}.")
