"""Metadata definitions in Glance's format; unset fields are omitted."""

from collections.abc import Iterable, Sequence
from typing import Any

from portal.api.image.images.shapes import moment
from provisioning.metadefs.models import (
    MetadefAssociation,
    MetadefNamespace,
    MetadefObject,
    MetadefProperty,
    MetadefResourceType,
    MetadefTag,
)

Shape = dict[str, Any]
NAMESPACES = "/v2/metadefs/namespaces"
Dated = MetadefNamespace | MetadefObject | MetadefTag | MetadefResourceType | MetadefAssociation


def namespace(row: MetadefNamespace) -> Shape:
    return {
        **_set(row, "namespace", "display_name", "description", "visibility", "protected", "owner"),
        **_moments(row),
        "self": f"{NAMESPACES}/{row.namespace}",
        "schema": "/v2/schemas/metadefs/namespace",
    }


def with_associations(row: MetadefNamespace, associations: Iterable[MetadefAssociation]) -> Shape:
    """Return a namespace as shown in lists."""
    found = [association(each) for each in associations]
    return {**namespace(row), **({"resource_type_associations": found} if found else {})}


def obj(row: MetadefObject, of: MetadefNamespace) -> Shape:
    return {
        **_set(row, "name", "description", "required", "properties"),
        **_moments(row),
        "self": f"{NAMESPACES}/{of.namespace}/objects/{row.name}",
        "schema": "/v2/schemas/metadefs/object",
    }


def prop(row: MetadefProperty) -> Shape:
    return {"name": row.name, **row.schema}


def properties(rows: Sequence[MetadefProperty]) -> Shape:
    return {row.name: row.schema for row in rows}


def tag(row: MetadefTag) -> Shape:
    return {"name": row.name, **_moments(row)}


def resource_type(row: MetadefResourceType) -> Shape:
    return {"name": row.name, **_moments(row)}


def association(row: MetadefAssociation) -> Shape:
    return {"name": row.resource_type.name, **_set(row, "prefix", "properties_target"), **_moments(row)}


def _set(row: Any, *names: str) -> Shape:
    found = ((name, getattr(row, name)) for name in names)
    return {name: value for name, value in found if value is not None}


def _moments(row: Dated) -> Shape:
    return {"created_at": moment(row.created_at), "updated_at": moment(row.updated_at)}
