"""Namespaces that a caller may change."""

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.metadefs.models import MetadefNamespace
from provisioning.metadefs.selectors import namespace_for, owns


def owned(context: RequestContext, name: str) -> MetadefNamespace:
    """Return a namespace that the caller may change, kept from others until the transaction ends.

    Raises NotFoundError, ForbiddenError for one that only others may change.
    """
    namespace = namespace_for(context, name)
    if not owns(context, namespace):
        raise ForbiddenError("You are not authorized to complete this action.")
    found = MetadefNamespace.objects.select_for_update().filter(pk=namespace.pk).first()
    if found is None:
        raise NotFoundError(f"Metadata definition namespace={name[:80]} was not found.")
    return found


def check_deletable(namespace: MetadefNamespace, what: str) -> None:
    """Raise ForbiddenError when nothing of the namespace may be deleted; ``what`` names the thing."""
    if namespace.protected:
        raise ForbiddenError(f"Metadata definition {what[:120]} is protected and cannot be deleted.")
