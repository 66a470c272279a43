"""Tags of a namespace: ``/image/v2/metadefs/namespaces/{namespace}/tags``."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import validate
from portal.api.common.views import Schemas
from portal.api.image.metadefs import shapes
from portal.api.image.metadefs.base import MetadefView, page_of, read_choice, read_sort
from portal.api.image.metadefs.schemas import TAG_BODY, TAGS_BODY
from provisioning.metadefs import selectors, services
from provisioning.metadefs.models import MetadefTag

TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


class Tags(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}/tags``."""

    rules = {"GET": "get_metadef_tags", "POST": "add_metadef_tags", "DELETE": "delete_metadef_namespace"}
    schemas: ClassVar[Schemas] = {"POST": TAGS_BODY}

    def get(self, request: Request, namespace: str) -> Response:
        """List a page of the tags."""
        found, page = selectors.namespace_for(self.context, namespace), page_of(request)
        read_choice(request, "visibility", ("public", "private", "shared"))
        rows = selectors.tags_of(found, limit=page.limit, marker=page.marker, sort=read_sort(request))
        return Response({"tags": [{"name": row.name} for row in rows]})

    def post(self, request: Request, namespace: str) -> Response:
        """Replace the tags, or with ``X-OpenStack-Append`` add tags to the existing ones."""
        names = [each["name"] for each in self.definition().get("tags", ())]
        append = request.headers.get("X-Openstack-Append", "").strip().lower() in TRUE
        rows = services.set_tags(self.context, namespace, names, append=append)
        return Response({"tags": [{"name": row.name} for row in rows]}, status=201)

    def delete(self, request: Request, namespace: str) -> Response:
        """Delete all tags of a namespace."""
        self.enforce("delete_metadef_tags")
        services.remove_all(self.context, namespace, MetadefTag)
        return Response(status=204)


class TagDetail(MetadefView):
    """``/image/v2/metadefs/namespaces/{namespace}/tags/{name}``."""

    rules = {
        "GET": "get_metadef_tag",
        "POST": "add_metadef_tag",
        "PUT": "modify_metadef_tag",
        "DELETE": "delete_metadef_tag",
    }
    schemas: ClassVar[Schemas] = {"PUT": TAG_BODY}

    def get(self, request: Request, namespace: str, name: str) -> Response:
        found = selectors.namespace_for(self.context, namespace)
        return Response(shapes.tag(selectors.content_of(found, MetadefTag, name)))

    def post(self, request: Request, namespace: str, name: str) -> Response:
        """Create a tag of a namespace."""
        validate({"name": name}, TAG_BODY)
        return Response(shapes.tag(services.add_tag(self.context, namespace, name)), status=201)

    def put(self, request: Request, namespace: str, name: str) -> Response:
        """Rename a tag of a namespace."""
        return Response(shapes.tag(services.rename_tag(self.context, namespace, name, self.definition()["name"])))

    def delete(self, request: Request, namespace: str, name: str) -> Response:
        services.remove(self.context, namespace, MetadefTag, name)
        return Response(status=204)
