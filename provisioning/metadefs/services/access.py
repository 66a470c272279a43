"""Namespaces that the caller may change."""

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.metadefs.models import MetadefNamespace
from provisioning.metadefs.selectors import namespace_for, owns


def owned(context: RequestContext, name: str) -> MetadefNamespace:
    """Return a namespace that the caller may change, and lock its row until the transaction ends.

    Raises NotFoundError, and ForbiddenError for a visible namespace of another owner.
    """
    namespace = namespace_for(context, name)
    if not owns(context, namespace):
        raise ForbiddenError("You are not authorized to complete this action.")
    found = MetadefNamespace.objects.select_for_update().filter(pk=namespace.pk).first()
    if found is None:
        raise NotFoundError(f"Metadata definition namespace={name[:80]} was not found.")
    return found


def check_deletable(namespace: MetadefNamespace, what: str) -> None:
    """Raise ForbiddenError if the namespace is protected. ``what`` names the object of the deletion in the message."""
    if namespace.protected:
        raise ForbiddenError(f"Metadata definition {what[:120]} is protected and cannot be deleted.")
