"""Addresses of metadata definitions."""

from django.urls import URLPattern, re_path

from portal.api.image.metadefs import namespaces, objects, properties, resource_types, tags

_ALL = r"^/v2/metadefs/namespaces"
_ONE = rf"{_ALL}/(?P<namespace>[^/]+)"
_NAME = r"(?P<name>[^/]+)"

METADEFS: list[URLPattern] = [
    re_path(r"^/v2/metadefs/resource_types/?$", resource_types.ResourceTypes.as_view()),
    re_path(rf"{_ALL}$", namespaces.Namespaces.as_view()),
    re_path(rf"{_ONE}/?$", namespaces.NamespaceDetail.as_view()),
    re_path(rf"{_ONE}/resource_types$", resource_types.Associations.as_view()),
    re_path(rf"{_ONE}/resource_types/{_NAME}/?$", resource_types.AssociationDetail.as_view()),
    re_path(rf"{_ONE}/properties$", properties.Properties.as_view()),
    re_path(rf"{_ONE}/properties/{_NAME}/?$", properties.PropertyDetail.as_view()),
    re_path(rf"{_ONE}/objects$", objects.Objects.as_view()),
    re_path(rf"{_ONE}/objects/{_NAME}/?$", objects.ObjectDetail.as_view()),
    re_path(rf"{_ONE}/tags$", tags.Tags.as_view()),
    re_path(rf"{_ONE}/tags/{_NAME}/?$", tags.TagDetail.as_view()),
    re_path(rf"^/v2/schemas/metadefs/{_NAME}/?$", namespaces.PublishedMetadefSchema.as_view()),
]
