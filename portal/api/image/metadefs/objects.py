"""Objects of a namespace: ``/image/v2/metadefs/namespaces/{namespace}/objects``."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.links import endpoint
from portal.api.common.views import Schemas
from portal.api.image.metadefs import shapes
from portal.api.image.metadefs.base import MetadefView, page_of, read_choice, read_sort
from portal.api.image.metadefs.schemas import OBJECT_BODY
from provisioning.common.errors import InvalidInputError
from provisioning.metadefs import selectors, services
from provisioning.metadefs.models import MetadefObject


class Objects(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}/objects``."""

    rules = {"GET": "get_metadef_objects", "POST": "add_metadef_object", "DELETE": "delete_metadef_namespace"}
    schemas: ClassVar[Schemas] = {"POST": OBJECT_BODY}

    def get(self, request: Request, namespace: str) -> Response:
        """List a page of the objects."""
        found, page = selectors.namespace_for(self.context, namespace), page_of(request)
        read_choice(request, "visibility", ("public", "private", "shared"))
        if not page.limit:
            raise InvalidInputError("limit param must be positive", field="limit")
        rows = selectors.objects_of(found, limit=page.limit, marker=page.marker, sort=read_sort(request))
        shown = rows if self.allows("get_metadef_object") else []
        return Response({"objects": [shapes.obj(row, found) for row in shown], "schema": "v2/schemas/metadefs/objects"})

    def post(self, request: Request, namespace: str) -> Response:
        made = services.add_object(self.context, namespace, self.definition())
        shape = shapes.obj(made, made.namespace)
        response = Response(shape, status=201)
        response["Location"] = f"{endpoint(request, 'image')}{shape['self']}"
        return response

    def delete(self, request: Request, namespace: str) -> Response:
        """Delete all objects of a namespace."""
        services.remove_all(self.context, namespace, MetadefObject)
        return Response(status=204)


class ObjectDetail(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}/objects/{name}``."""

    rules = {"GET": "get_metadef_object", "PUT": "modify_metadef_object", "DELETE": "delete_metadef_object"}
    schemas: ClassVar[Schemas] = {"PUT": OBJECT_BODY}

    def get(self, request: Request, namespace: str, name: str) -> Response:
        found = selectors.namespace_for(self.context, namespace)
        return Response(shapes.obj(selectors.content_of(found, MetadefObject, name), found))

    def put(self, request: Request, namespace: str, name: str) -> Response:
        """Replace an object, optionally with a new name."""
        row = services.change_object(self.context, namespace, name, self.definition())
        return Response(shapes.obj(row, row.namespace))

    def delete(self, request: Request, namespace: str, name: str) -> Response:
        services.remove(self.context, namespace, MetadefObject, name)
        return Response(status=204)
