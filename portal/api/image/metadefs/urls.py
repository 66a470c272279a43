"""Addresses of metadata definitions."""

from django.urls import URLPattern, re_path

from portal.api.image.dialect import routes
from portal.api.image.metadefs.contents import OBJECT, PROPERTY, TAG, TAGS
from portal.api.image.metadefs.namespaces import NAMESPACE, NAMESPACES
from portal.api.image.metadefs.published import PublishedMetadefSchema
from portal.api.image.metadefs.resource_types import ASSOCIATION, RESOURCE_TYPE

METADEFS: list[URLPattern] = [
    *routes(RESOURCE_TYPE),
    *routes(NAMESPACE, NAMESPACES),
    *routes(ASSOCIATION),
    *routes(PROPERTY),
    *routes(OBJECT),
    *routes(TAG, TAGS),
    re_path(r"^/v2/schemas/metadefs/(?P<name>[^/]+)/?$", PublishedMetadefSchema.as_view()),
]
