"""Resource types, and the contents of namespaces: their objects, properties, tags and resource types, below
``/image/v2/metadefs/namespaces/{namespace}``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import Json, Operation, Values, validate
from portal.api.image.dialect import IMAGE, DetailView, ListView, Resource, ResourceView, body_of
from portal.api.image.metadefs import attributes
from portal.api.image.metadefs.attributes import DEFINITIONS, TAGS_BODY
from portal.api.image.metadefs.namespaces import NAMESPACE, page_of, read_choice, read_sort
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.metadefs import models, selectors, services

TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


def _of(view: ResourceView) -> models.MetadefNamespace:
    """Return the namespace of the path."""
    return selectors.namespace_for(view.context, view.above["namespace"])


def _show(kind: Any, view: ResourceView, name: str) -> Any:
    return selectors.content_of(_of(view), kind, name)


def _delete(kind: Any, view: ResourceView, name: str) -> None:
    services.remove(view.context, view.above["namespace"], kind, name)


def _clear(kind: Any, view: ResourceView) -> None:
    services.remove_all(view.context, view.above["namespace"], kind)


def _list_objects(view: ListView) -> list[models.MetadefObject]:
    found, page = _of(view), page_of(view.request)
    read_choice(view.request, "visibility", ("public", "private", "shared"))
    if not page.limit:
        raise InvalidInputError("limit param must be positive", field="limit")
    sort = read_sort(view.request, selectors.OBJECTS)
    return selectors.objects_of(found, limit=page.limit, marker=page.marker, sort=sort)


def _create_object(view: ResourceView, values: Values) -> models.MetadefObject:
    return services.add_object(view.context, view.above["namespace"], values)


def _update_object(view: ResourceView, name: str, values: Values) -> models.MetadefObject:
    return services.change_object(view.context, view.above["namespace"], name, values)


OBJECT = Resource(
    name="object",
    below=NAMESPACE,
    parameter="name",
    list=Operation(_list_objects, "get_metadef_objects", "List a page of the objects."),
    show=Operation(partial(_show, models.MetadefObject), "get_metadef_object"),
    create=Operation(_create_object, "add_metadef_object"),
    update=Operation(_update_object, "modify_metadef_object", "Replace an object, optionally with a new name."),
    delete=Operation(partial(_delete, models.MetadefObject), "delete_metadef_object"),
    clear=Operation(
        partial(_clear, models.MetadefObject), "delete_metadef_namespace", "Delete all objects of a namespace."
    ),
    attributes=attributes.OBJECT,
    seen="get_metadef_object",
    links=lambda view, rows: {"schema": "v2/schemas/metadefs/objects"},
    definitions=DEFINITIONS,
)


class Properties(Resource):
    """Properties: a list has them by name."""

    def entries(self, shapes: Sequence[Mapping[str, Any]]) -> Any:
        return {shape["name"]: {name: value for name, value in shape.items() if name != "name"} for shape in shapes}


def _show_property(view: ResourceView, name: str) -> models.MetadefProperty:
    found, resource_type = _of(view), view.request.query_params.get("resource_type")
    if resource_type:
        view.enforce("get_metadef_resource_type")
        prefix = selectors.association_of(found, resource_type.replace("\0", "")).prefix
        if not prefix or not name.startswith(prefix):
            msg = f"Property {name[:80]} does not start with the prefix '{prefix or ''}' of {resource_type[:80]}."
            raise NotFoundError(msg)
        name = name.removeprefix(prefix)
    return selectors.content_of(found, models.MetadefProperty, name)


def _create_property(view: ResourceView, values: Values) -> models.MetadefProperty:
    return services.add_property(view.context, view.above["namespace"], values["name"], values)


def _update_property(view: ResourceView, name: str, values: Values) -> models.MetadefProperty:
    return services.change_property(view.context, view.above["namespace"], name, values["name"], values)


PROPERTY = Properties(
    name="property",
    plural="properties",
    below=NAMESPACE,
    parameter="name",
    list=Operation(
        lambda view: selectors.properties_of(_of(view)), "get_metadef_properties", "List the properties by name."
    ),
    show=Operation(
        _show_property,
        "get_metadef_property",
        "Show a property; with ``resource_type``, by its name with that type's prefix.",
    ),
    create=Operation(_create_property, "add_metadef_property"),
    update=Operation(_update_property, "modify_metadef_property", "Replace a property, optionally with a new name."),
    delete=Operation(partial(_delete, models.MetadefProperty), "remove_metadef_property"),
    clear=Operation(
        partial(_clear, models.MetadefProperty), "delete_metadef_namespace", "Delete all properties of a namespace."
    ),
    attributes=attributes.PROPERTY,
    definitions=DEFINITIONS,
)


class TagView(DetailView):
    """``/image/v2/metadefs/namespaces/{namespace}/tags/{name}``."""

    rules = {"POST": "add_metadef_tag"}

    def post(self, request: Request, identity: str) -> Response:
        """Create a tag of a namespace."""
        validate({"name": identity}, TAG_BODY)
        made = services.add_tag(self.context, self.above["namespace"], identity)
        return self.answer("create", made)


def _list_tags(view: ListView) -> list[models.MetadefTag]:
    found, page = _of(view), page_of(view.request)
    read_choice(view.request, "visibility", ("public", "private", "shared"))
    sort = read_sort(view.request, selectors.TAGS)
    return selectors.tags_of(found, limit=page.limit, marker=page.marker, sort=sort)


def _set_tags(view: ResourceView, values: Values) -> Json:
    names = [each["name"] for each in values.get("tags", ())]
    append = view.request.headers.get("X-Openstack-Append", "").strip().lower() in TRUE
    rows = services.set_tags(view.context, view.above["namespace"], names, append=append)
    return {"tags": view.shapes(rows, attributes.TAG[:1])}


def _rename_tag(view: ResourceView, name: str, values: Values) -> models.MetadefTag:
    return services.rename_tag(view.context, view.above["namespace"], name, values["name"])


TAG = Resource(
    name="tag",
    below=NAMESPACE,
    parameter="name",
    list=Operation(_list_tags, "get_metadef_tags", "List a page of the tags.", shows=attributes.TAG[:1]),
    show=Operation(partial(_show, models.MetadefTag), "get_metadef_tag"),
    create=Operation(
        _set_tags,
        "add_metadef_tags",
        "Replace the tags, or with ``X-OpenStack-Append`` add tags to the existing ones.",
        body=TAGS_BODY,
    ),
    update=Operation(_rename_tag, "modify_metadef_tag", "Rename a tag of a namespace."),
    delete=Operation(partial(_delete, models.MetadefTag), "delete_metadef_tag"),
    clear=Operation(
        partial(_clear, models.MetadefTag),
        "delete_metadef_namespace",
        "Delete all tags of a namespace.",
        also=("delete_metadef_tags",),
    ),
    attributes=attributes.TAG,
    definitions=DEFINITIONS,
)
TAGS = replace(IMAGE, details=TagView)
TAG_BODY = body_of(TAG, attributes.TAG[:1])


def _list_associations(view: ListView) -> list[models.MetadefAssociation]:
    found = selectors.namespace_for(view.context, view.above["namespace"])
    return list(selectors.with_associations(found).associations.all())


def _create_association(view: ResourceView, values: Values) -> models.MetadefAssociation:
    return services.associate(view.context, view.above["namespace"], values)


def _delete_association(view: ResourceView, name: str) -> None:
    services.dissociate(view.context, view.above["namespace"], name)


RESOURCE_TYPE = Resource(
    name="resource_type",
    path="metadefs/resource_types",
    list=Operation(
        lambda view: selectors.resource_types(view.context),
        "list_metadef_resource_types",
        "List the resource types that namespaces are associated with. Operators also see types without a remaining"
        " association.",
    ),
    attributes=attributes.RESOURCE_TYPE,
)
ASSOCIATION = Resource(
    name="resource_type_association",
    path="resource_types",
    below=NAMESPACE,
    parameter="name",
    list=Operation(
        _list_associations,
        "list_metadef_resource_types",
        "List the resource types that a namespace is associated with.",
    ),
    create=Operation(
        _create_association, "add_metadef_resource_type_association", "Associate a namespace with a resource type."
    ),
    delete=Operation(
        _delete_association, "remove_metadef_resource_type_association", "Remove the association with a resource type."
    ),
    attributes=attributes.ASSOCIATION,
    seen="get_metadef_resource_type",
    definitions=DEFINITIONS,
)
