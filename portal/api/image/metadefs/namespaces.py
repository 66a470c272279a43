"""Namespaces: ``/image/v2/metadefs/namespaces``."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.links import endpoint
from portal.api.common.paging import next_query
from portal.api.common.views import Schemas
from portal.api.image.base import ImageView
from portal.api.image.metadefs import shapes
from portal.api.image.metadefs.base import MetadefView, page_of, read_choice, read_sort
from portal.api.image.metadefs.schemas import NAMESPACE_BODY, PUBLISHED
from provisioning.common.errors import NotFoundError
from provisioning.metadefs import selectors, services
from provisioning.metadefs.models import MetadefNamespace

MOST_TYPES = 50
"""Maximum number of resource types in the filter of one list."""
CONTENTS = {
    "resource_type_associations": "add_metadef_resource_type_association",
    "properties": "add_metadef_property",
    "objects": "add_metadef_object",
    "tags": "add_metadef_tag",
}
"""Contents of a new namespace → the policy rule of each."""


class Namespaces(MetadefView):
    """``/image/v2/metadefs/namespaces``."""

    rules = {"GET": "get_metadef_namespaces", "POST": "add_metadef_namespace"}
    schemas: ClassVar[Schemas] = {"POST": NAMESPACE_BODY}

    def get(self, request: Request) -> Response:
        """List namespaces with their resource types; filters ``visibility`` and ``resource_types``, paged."""
        self.enforce("list_metadef_resource_types")
        page = page_of(request)
        rows = selectors.namespaces_for(
            self.context, _filters(request), limit=page.limit, marker=page.marker, sort=read_sort(request)
        )
        shown = rows if self.allows("get_metadef_namespace") else []
        first = request.query_params.copy()
        first.pop("marker", None)
        following = next_query(request, page, [row.namespace for row in rows])
        body: dict[str, Any] = {
            "namespaces": [shapes.with_associations(row, row.associations.all()) for row in shown],
            "first": f"{shapes.NAMESPACES}?{first.urlencode()}" if first else shapes.NAMESPACES,
            "schema": "/v2/schemas/metadefs/namespaces",
            **({"next": f"{shapes.NAMESPACES}?{following}"} if following else {}),
        }
        return Response(body)

    def post(self, request: Request) -> Response:
        """Create a namespace with all its contents."""
        body = self.definition()
        self.enforce(*(rule for name, rule in CONTENTS.items() if body.get(name)))
        inside = services.Contents(
            associations=body.get("resource_type_associations", ()),
            properties=body.get("properties", {}),
            objects=body.get("objects", ()),
            tags=[each["name"] for each in body.get("tags", ())],
        )
        made = services.create(self.context, body, inside)
        shape = {**shapes.namespace(made), **{name: body[name] for name in CONTENTS if name in body}}
        response = Response(shape, status=201)
        response["Location"] = f"{endpoint(request, 'image')}{shape['self']}"
        return response


class NamespaceDetail(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}``."""

    rules = {
        "GET": "get_metadef_namespace",
        "PUT": "modify_metadef_namespace",
        "DELETE": "delete_metadef_namespace",
    }
    schemas: ClassVar[Schemas] = {"PUT": NAMESPACE_BODY}

    def get(self, request: Request, namespace: str) -> Response:
        """Show a namespace with its contents; with ``resource_type``, property names have that type's prefix."""
        found = selectors.namespace_for(self.context, namespace)
        self.enforce("list_metadef_resource_types", "get_metadef_objects", "get_metadef_properties", "get_metadef_tags")
        associations = selectors.associations_of(found)
        asked = request.query_params.get("resource_type")
        prefix = next((each.prefix for each in associations if each.resource_type.name == asked), None) or ""
        contents = {
            "objects": [_prefixed(shapes.obj(row, found), prefix) for row in selectors.objects_of(found)],
            "properties": _renamed(shapes.properties(selectors.properties_of(found)), prefix),
            "tags": [{"name": row.name} for row in selectors.tags_of(found)],
        }
        shown = {name: value for name, value in contents.items() if value}
        return Response({**shapes.with_associations(found, associations), **shown})

    def put(self, request: Request, namespace: str) -> Response:
        """Replace a namespace's own attributes; its contents are kept."""
        return Response(shapes.namespace(services.update(self.context, namespace, self.definition())))

    def delete(self, request: Request, namespace: str) -> Response:
        services.delete(self.context, namespace)
        return Response(status=204)


class PublishedMetadefSchema(ImageView):
    """``/image/v2/schemas/metadefs/{name}``."""

    rules = {"GET": "novella:get_image_schema"}

    def get(self, request: Request, name: str) -> Response:
        """Show the JSON schema of a metadata definition."""
        if name not in PUBLISHED:
            raise NotFoundError(f"There is no schema metadefs/{name[:80]}.")
        return Response(PUBLISHED[name])


def _filters(request: Request) -> dict[str, Any]:
    visibility = read_choice(request, "visibility", tuple(MetadefNamespace.Visibility.values))
    filters: dict[str, Any] = {} if visibility is None else {"visibility": visibility}
    if "resource_types" in request.query_params:
        filters["resource_types"] = request.query_params["resource_types"].replace("\0", "").split(",")[:MOST_TYPES]
    return filters


def _prefixed(shape: shapes.Shape, prefix: str) -> shapes.Shape:
    """Return an object whose property names have the prefix of the resource type."""
    if prefix and "properties" in shape:
        shape["properties"] = _renamed(shape["properties"], prefix)
    if prefix and "required" in shape:
        shape["required"] = [prefix + name for name in shape["required"]]
    return shape


def _renamed(properties: shapes.Shape, prefix: str) -> shapes.Shape:
    return {prefix + name: schema for name, schema in properties.items()}
