"""Namespaces: ``/image/v2/metadefs/namespaces``; queries of lists of metadata definitions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rest_framework.request import Request

from portal.api.frame import Json, Operation, Page, Values
from portal.api.image.dialect import IMAGE, DetailView, ListView, Resource, ResourceView
from portal.api.image.images.queries import LIST_PAGES, ONE_KEY
from portal.api.image.metadefs import attributes
from portal.api.image.metadefs.attributes import ADDRESS, DEFINITIONS
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Listing, Sort
from provisioning.metadefs import selectors, services
from provisioning.metadefs.models import MetadefNamespace


def read_sort(request: Request, listing: Listing[Any]) -> tuple[Sort, ...]:
    """Return the order in ``sort_key`` and ``sort_dir``. Raises InvalidInputError for an unknown one."""
    return ONE_KEY.read(request.query_params, listing.sort_keys or {})


def read_choice(request: Request, name: str, choices: tuple[str, ...]) -> str | None:
    """Return the value of a filter that has fixed values; raises InvalidInputError for any other value."""
    value = request.query_params.get(name) or None
    if value is not None and value not in choices:
        raise InvalidInputError(f"Invalid {name} value: {value[:80]}", field=name)
    return value


def page_of(request: Request) -> Page:
    """Return the requested page. Raises InvalidInputError for a marker with NUL."""
    page = LIST_PAGES.read(request)
    if page.marker is not None and "\0" in page.marker:
        raise InvalidInputError("The marker has a NUL character in it.", field="marker")
    return page


MOST_TYPES = 50
"""Maximum number of resource types in the filter of one list."""
CONTENTS = {
    "resource_type_associations": "add_metadef_resource_type_association",
    "properties": "add_metadef_property",
    "objects": "add_metadef_object",
    "tags": "add_metadef_tag",
}
"""Contents of a new namespace → the policy rule of each."""


def _list(view: ListView) -> list[MetadefNamespace]:
    page, query = page_of(view.request), view.request.query_params
    visibility = read_choice(view.request, "visibility", tuple(MetadefNamespace.Visibility.values))
    filters: Values = {} if visibility is None else {"visibility": visibility}
    if "resource_types" in query:
        filters["resource_types"] = query["resource_types"].replace("\0", "").split(",")[:MOST_TYPES]
    sort = read_sort(view.request, selectors.NAMESPACES)
    return selectors.namespaces_for(view.context, filters, limit=page.limit, marker=page.marker, sort=sort)


def _links(view: ListView, rows: Sequence[MetadefNamespace]) -> Json:
    first = view.request.query_params.copy()
    first.pop("marker", None)
    following = LIST_PAGES.next_query(view.request, page_of(view.request), [row.namespace for row in rows])
    return {
        "first": f"{ADDRESS}?{first.urlencode()}" if first else ADDRESS,
        "schema": "/v2/schemas/metadefs/namespaces",
        **({"next": f"{ADDRESS}?{following}"} if following else {}),
    }


def _create(view: ResourceView, values: Values) -> Json:
    view.enforce(*(rule for name, rule in CONTENTS.items() if values.get(name)))
    inside = services.Contents(
        associations=values.get("resource_type_associations", ()),
        properties=values.get("properties", {}),
        objects=values.get("objects", ()),
        tags=[each["name"] for each in values.get("tags", ())],
    )
    [shape] = view.shapes([services.create(view.context, values, inside)], attributes.NAMESPACE)
    return {**shape, **{name: values[name] for name in CONTENTS if name in values}}


def _update(view: ResourceView, name: str, values: Values) -> MetadefNamespace:
    return services.update(view.context, name, values)


def _delete(view: ResourceView, name: str) -> None:
    services.delete(view.context, name)


class NamespaceView(DetailView):
    """``/image/v2/metadefs/namespaces/{namespace}``."""

    def get(self, request: Request, identity: str) -> Json:
        found = selectors.with_associations(self.row(identity))
        self.enforce("list_metadef_resource_types", "get_metadef_objects", "get_metadef_properties", "get_metadef_tags")
        resource_type = request.query_params.get("resource_type")
        prefixes = (each.prefix for each in found.associations.all() if each.resource_type.name == resource_type)
        prefix = next(prefixes, None) or ""
        objects = self.shapes(selectors.objects_of(found), attributes.OBJECT)
        contents = {
            "objects": [_prefixed(shape, prefix) for shape in objects],
            "properties": {f"{prefix}{row.name}": row.schema for row in selectors.properties_of(found)},
            "tags": [{"name": row.name} for row in selectors.tags_of(found)],
        }
        [shape] = self.shapes([found])
        return {**shape, **{name: value for name, value in contents.items() if value}}


def _prefixed(shape: Json, prefix: str) -> Json:
    """Return an object whose property names have the prefix of the resource type."""
    result: Json = {}
    if "properties" in shape:
        result["properties"] = {prefix + name: schema for name, schema in shape["properties"].items()}
    if "required" in shape:
        result["required"] = [prefix + name for name in shape["required"]]
    return {**shape, **result}


NAMESPACE = Resource(
    name="namespace",
    path="metadefs/namespaces",
    parameter="namespace",
    key="namespace",
    list=Operation(
        _list,
        "get_metadef_namespaces",
        "List namespaces with their resource types; filters ``visibility`` and ``resource_types``, paged.",
        also=("list_metadef_resource_types",),
    ),
    show=Operation(
        lambda view, name: selectors.namespace_for(view.context, name),
        "get_metadef_namespace",
        "Show a namespace with its contents; with ``resource_type``, property names have that type's prefix.",
    ),
    create=Operation(_create, "add_metadef_namespace", "Create a namespace with all its contents."),
    update=Operation(
        _update,
        "modify_metadef_namespace",
        "Replace a namespace's own attributes; its contents are kept.",
        shows=attributes.NAMESPACE,
    ),
    delete=Operation(_delete, "delete_metadef_namespace"),
    attributes=(*attributes.NAMESPACE, *attributes.CONTENTS),
    seen="get_metadef_namespace",
    links=_links,
    definitions=DEFINITIONS,
)
NAMESPACES = replace(IMAGE, details=NamespaceView)
