"""Properties of a namespace: ``/image/v2/metadefs/namespaces/{namespace}/properties``."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.image.metadefs import shapes
from portal.api.image.metadefs.base import MetadefView
from portal.api.image.metadefs.schemas import PROPERTY_BODY
from provisioning.common.errors import NotFoundError
from provisioning.metadefs import selectors, services
from provisioning.metadefs.models import MetadefNamespace, MetadefProperty


class Properties(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}/properties``."""

    rules = {"GET": "get_metadef_properties", "POST": "add_metadef_property", "DELETE": "delete_metadef_namespace"}
    schemas: ClassVar[Schemas] = {"POST": PROPERTY_BODY}

    def get(self, request: Request, namespace: str) -> Response:
        """List the properties by name."""
        found = selectors.namespace_for(self.context, namespace)
        return Response({"properties": shapes.properties(selectors.properties_of(found))})

    def post(self, request: Request, namespace: str) -> Response:
        body = self.definition()
        return Response(shapes.prop(services.add_property(self.context, namespace, body["name"], body)), status=201)

    def delete(self, request: Request, namespace: str) -> Response:
        """Delete all properties of a namespace."""
        services.remove_all(self.context, namespace, MetadefProperty)
        return Response(status=204)


class PropertyDetail(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}/properties/{name}``."""

    rules = {"GET": "get_metadef_property", "PUT": "modify_metadef_property", "DELETE": "remove_metadef_property"}
    schemas: ClassVar[Schemas] = {"PUT": PROPERTY_BODY}

    def get(self, request: Request, namespace: str, name: str) -> Response:
        """Show a property; with ``resource_type``, by its name with that type's prefix."""
        found = selectors.namespace_for(self.context, namespace)
        asked = request.query_params.get("resource_type")
        if asked:
            self.enforce("get_metadef_resource_type")
            name = _plain(found, name, asked)
        return Response(shapes.prop(selectors.content_of(found, MetadefProperty, name)))

    def put(self, request: Request, namespace: str, name: str) -> Response:
        """Replace a property, optionally with a new name."""
        body = self.definition()
        return Response(shapes.prop(services.change_property(self.context, namespace, name, body["name"], body)))

    def delete(self, request: Request, namespace: str, name: str) -> Response:
        services.remove(self.context, namespace, MetadefProperty, name)
        return Response(status=204)


def _plain(namespace: MetadefNamespace, name: str, resource_type: str) -> str:
    """Return a property's name in its namespace. Raises NotFoundError if the prefix of the resource type is missing."""
    prefix = selectors.association_of(namespace, resource_type.replace("\0", "")).prefix
    if not prefix or not name.startswith(prefix):
        msg = f"Property {name[:80]} does not start with the prefix '{prefix or ''}' of {resource_type[:80]}."
        raise NotFoundError(msg)
    return name.removeprefix(prefix)
