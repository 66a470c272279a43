"""Associations of namespaces with resource types."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.metadefs.models import MetadefAssociation, MetadefNamespace, MetadefResourceType
from provisioning.metadefs.selectors import association_of
from provisioning.metadefs.services.checks import MOST, MOST_TYPES, check_deletable, check_room, check_text, owned

Values = Mapping[str, Any]


def associate(context: RequestContext, namespace: str, values: Values) -> MetadefAssociation:
    """Associate a namespace with a resource type, which is created if it is new.

    ``values``: ``name``, optionally ``prefix`` and ``properties_target``. Raises NotFoundError, ForbiddenError,
    ConflictError if they are already associated, TooLargeError.
    """
    with transaction.atomic():
        return write(owned(context, namespace), values)


def dissociate(context: RequestContext, namespace: str, resource_type: str) -> None:
    """Remove an association. Raises NotFoundError, ForbiddenError if the namespace is protected."""
    with transaction.atomic():
        record = owned(context, namespace)
        association = association_of(record, resource_type)
        check_deletable(record, f"resource-type-association {resource_type}")
        association.delete()


def write(namespace: MetadefNamespace, values: Values) -> MetadefAssociation:
    """Create an association in the caller's transaction, which has locked the namespace."""
    name = check_text("name", values["name"])
    check_room(MetadefAssociation.objects.filter(namespace=namespace), 1, MOST, "resource types of a namespace")
    try:
        with transaction.atomic():
            return MetadefAssociation.objects.create(
                namespace=namespace,
                resource_type=_type(name),
                prefix=values.get("prefix"),
                properties_target=values.get("properties_target"),
            )
    except IntegrityError:
        text = f"The metadata definition resource-type association of resource-type={name} to"
        raise ConflictError(f"{text} namespace={namespace.namespace} already exists.", field="name") from None


def _type(name: str) -> MetadefResourceType:
    metadef_resource_type = MetadefResourceType.objects.filter(name=name).first()
    if metadef_resource_type is not None:
        return metadef_resource_type
    check_room(MetadefResourceType.objects.all(), 1, MOST_TYPES, "resource types")
    return MetadefResourceType.objects.get_or_create(name=name)[0]
