"""Addresses of metadata definitions."""

from django.urls import URLPattern

from portal.api.image.dialect import routes, urls
from portal.api.image.metadefs.contents import OBJECT, PROPERTY, TAG, TAGS
from portal.api.image.metadefs.namespaces import NAMESPACE, NAMESPACES
from portal.api.image.metadefs.published import PARTS
from portal.api.image.metadefs.resource_types import ASSOCIATION, RESOURCE_TYPE

METADEFS: list[URLPattern] = [
    *routes(RESOURCE_TYPE),
    *routes(NAMESPACE, NAMESPACES),
    *routes(ASSOCIATION),
    *routes(PROPERTY),
    *routes(OBJECT),
    *routes(TAG, TAGS),
    *urls(PARTS),
]
