"""Metadata definitions that are visible to a caller."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from django.db.models import Manager, Prefetch, Q, QuerySet, prefetch_related_objects

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.identity import policy
from provisioning.metadefs.models import (
    MetadefAssociation,
    MetadefNamespace,
    MetadefObject,
    MetadefProperty,
    MetadefResourceType,
    MetadefTag,
)

C = TypeVar("C", bound=MetadefProperty | MetadefObject | MetadefTag)
KINDS: dict[type[Any], str] = {MetadefProperty: "property", MetadefObject: "object", MetadefTag: "tag"}
"""Contents of a namespace → their names in messages."""
_NEWEST_FIRST = (Sort("created_at"), Sort("id"))
_OF_ALL = ("created_at", "updated_at", "id")
NAMESPACES = Listing[MetadefNamespace](
    order=_NEWEST_FIRST,
    sort_keys={
        name: name
        for name in (*_OF_ALL, "namespace", "display_name", "description", "visibility", "owner", "protected")
    },
    marker="namespace",
)
OBJECTS = Listing[MetadefObject](
    order=_NEWEST_FIRST, sort_keys={name: name for name in (*_OF_ALL, "name", "description")}, marker="name"
)
TAGS = Listing[MetadefTag](order=_NEWEST_FIRST, sort_keys={name: name for name in (*_OF_ALL, "name")}, marker="name")


def sees_all(context: RequestContext) -> bool:
    """Return whether the caller may see and change the namespaces of all projects."""
    return policy.allows(context, "novella:get_metadef_namespaces:all_projects")


def owner_of(context: RequestContext) -> str:
    """Return the ``owner`` of the caller's namespaces; "" without a project."""
    return context.project_id.hex if context.project_id else ""


def owns(context: RequestContext, namespace: MetadefNamespace) -> bool:
    return (bool(namespace.owner) and namespace.owner == owner_of(context)) or sees_all(context)


def visible_namespaces(context: RequestContext) -> QuerySet[MetadefNamespace]:
    """Return public namespaces and namespaces of the caller's project; operators see all."""
    rows = MetadefNamespace.objects.all()
    if sees_all(context):
        return rows
    return rows.filter(Q(visibility=MetadefNamespace.Visibility.PUBLIC) | Q(owner=owner_of(context) or None))


def namespace_for(context: RequestContext, name: str) -> MetadefNamespace:
    """Return one namespace. Raises NotFoundError if it does not exist or is not visible to the caller."""
    metadef_namespace = visible_namespaces(context).filter(namespace=name).first() if _may_be(name) else None
    if metadef_namespace is None:
        raise NotFoundError(f"Metadata definition namespace={name[:80]} was not found.")
    return metadef_namespace


def namespaces_for(
    context: RequestContext,
    filters: Mapping[str, Any],
    *,
    limit: int,
    marker: str | None = None,
    sort: Sequence[Sort] = (),
) -> list[MetadefNamespace]:
    """Return one page of namespaces with their associations, by default the newest first.

    ``filters``: ``visibility``, ``resource_types`` (names; a namespace must have one of them). Raises NotFoundError for
    an unknown marker and InvalidInputError for an unknown sort key.
    """
    if marker is not None:
        namespace_for(context, marker)
    rows = visible_namespaces(context)
    if "visibility" in filters:
        rows = rows.filter(visibility=filters["visibility"])
    if "resource_types" in filters:
        of_type = MetadefAssociation.objects.filter(resource_type__name__in=filters["resource_types"])
        rows = rows.filter(pk__in=of_type.values("namespace_id"))
    rows = rows.prefetch_related(Prefetch("associations", queryset=_associations()))
    return NAMESPACES.page(rows, Part((), sort, limit, marker), among=visible_namespaces(context))


def with_associations(namespace: MetadefNamespace) -> MetadefNamespace:
    """Read the associations of a namespace with resource types into its ``associations``, and return it."""
    prefetch_related_objects([namespace], Prefetch("associations", queryset=_associations()))
    return namespace


def properties_of(namespace: MetadefNamespace) -> list[MetadefProperty]:
    return list(MetadefProperty.objects.filter(namespace=namespace).order_by("name"))


def objects_of(
    namespace: MetadefNamespace, *, limit: int | None = None, marker: str | None = None, sort: Sequence[Sort] = ()
) -> list[MetadefObject]:
    """Return one page of the objects, by default the newest first; raises the errors of ``namespaces_for``."""
    if marker is not None:
        content_of(namespace, MetadefObject, marker)
    return OBJECTS.page(namespace.object_rows.all(), Part((), sort, limit, marker))


def tags_of(
    namespace: MetadefNamespace, *, limit: int | None = None, marker: str | None = None, sort: Sequence[Sort] = ()
) -> list[MetadefTag]:
    """Return one page of the tags, by default the newest first; raises the errors of ``namespaces_for``."""
    if marker is not None:
        marker = content_of(namespace, MetadefTag, marker).name
    return TAGS.page(MetadefTag.objects.filter(namespace=namespace), Part((), sort, limit, marker))


def rows_of(kind: type[C]) -> Manager[C]:
    return cast("Manager[C]", kind._default_manager)


def content_of(namespace: MetadefNamespace, kind: type[C], name: str) -> C:
    """Return one property, object or tag of a namespace. Raises NotFoundError."""
    exactly = {"name__iexact" if kind is MetadefTag else "name": name}
    result = rows_of(kind).filter(namespace=namespace, **exactly).first() if _may_be(name) else None
    if result is None:
        what = KINDS[kind]
        msg = f"The metadata definition {what} with name={name[:80]} was not found in namespace={namespace.namespace}."
        raise NotFoundError(msg)
    result.namespace = namespace
    return result


def association_of(namespace: MetadefNamespace, resource_type: str) -> MetadefAssociation:
    """Return the association of a namespace with a resource type. Raises NotFoundError."""
    rows = _associations().filter(namespace=namespace, resource_type__name=resource_type)
    metadef_association = rows.first() if _may_be(resource_type) else None
    if metadef_association is None:
        msg = (
            f"The metadata definition resource-type association of resource-type={resource_type[:80]} to"
            f" namespace={namespace.namespace}, was not found."
        )
        raise NotFoundError(msg)
    return metadef_association


def resource_types(context: RequestContext) -> Iterable[MetadefResourceType]:
    """Return the resource types associated with namespaces that the caller sees; operators also see unused ones."""
    rows = MetadefResourceType.objects.order_by("name")
    if sees_all(context):
        return rows
    seen = MetadefAssociation.objects.filter(namespace__in=visible_namespaces(context))
    return rows.filter(pk__in=seen.values("resource_type_id"))


def _may_be(name: str) -> bool:
    """Return whether a row may have the name: PostgreSQL rejects NUL characters even in queries."""
    return "\0" not in name


def _associations() -> QuerySet[MetadefAssociation]:
    return MetadefAssociation.objects.select_related("resource_type").order_by("resource_type__name")
