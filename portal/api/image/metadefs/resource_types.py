"""Resource types of all namespaces (``/image/v2/metadefs/resource_types``), and the resource types of one namespace."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.image.metadefs import shapes
from portal.api.image.metadefs.base import MetadefView
from portal.api.image.metadefs.schemas import ASSOCIATION_BODY
from provisioning.metadefs import selectors, services


class ResourceTypes(MetadefView):
    """``/image/v2/metadefs/resource_types``."""

    rules = {"GET": "list_metadef_resource_types"}

    def get(self, request: Request) -> Response:
        """List the resource types that namespaces are associated with. Operators also see types without a remaining
        association.
        """
        return Response(
            {"resource_types": [shapes.resource_type(row) for row in selectors.resource_types(self.context)]}
        )


class Associations(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}/resource_types``."""

    rules = {"GET": "list_metadef_resource_types", "POST": "add_metadef_resource_type_association"}
    schemas: ClassVar[Schemas] = {"POST": ASSOCIATION_BODY}

    def get(self, request: Request, namespace: str) -> Response:
        """List the resource types that a namespace is associated with."""
        rows = selectors.associations_of(selectors.namespace_for(self.context, namespace))
        shown = rows if self.allows("get_metadef_resource_type") else []
        return Response({"resource_type_associations": [shapes.association(row) for row in shown]})

    def post(self, request: Request, namespace: str) -> Response:
        """Associate a namespace with a resource type."""
        row = services.associate(self.context, namespace, self.definition())
        return Response(shapes.association(row), status=201)


class AssociationDetail(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}/resource_types/{name}``."""

    rules = {"DELETE": "remove_metadef_resource_type_association"}

    def delete(self, request: Request, namespace: str, name: str) -> Response:
        """Remove the association with a resource type."""
        services.dissociate(self.context, namespace, name)
        return Response(status=204)
