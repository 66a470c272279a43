"""The contents of namespaces: properties, objects and tags."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.metadefs.models import MetadefNamespace, MetadefObject, MetadefProperty, MetadefTag
from provisioning.metadefs.selectors import KINDS, C, content_of, rows_of
from provisioning.metadefs.services.checks import MOST, check_deletable, check_room, check_text, owned

PLURALS: dict[type[Any], str] = {MetadefProperty: "properties", MetadefObject: "objects", MetadefTag: "tags"}
Values = Mapping[str, Any]

Schema = dict[str, Any]
FIELDS = (
    *("type", "title", "description", "operators", "default", "readonly", "minimum", "maximum", "enum", "pattern"),
    *("minLength", "maxLength", "confidential", "items", "uniqueItems", "minItems", "maxItems", "additionalItems"),
)


def add_property(context: RequestContext, namespace: str, name: str, schema: Values) -> MetadefProperty:
    """Create a property from a schema of the API.

    Raises, as all ``add_…`` functions do, NotFoundError and ForbiddenError for the namespace, ConflictError if the name
    exists in it, TooLargeError if it has ``MOST``.
    """
    with transaction.atomic():
        return write_properties(owned(context, namespace), {name: schema})[0]


def add_object(context: RequestContext, namespace: str, values: Values) -> MetadefObject:
    """Create an object. ``values``: ``name``, optionally ``description``, ``required`` and ``properties``."""
    with transaction.atomic():
        return write_objects(owned(context, namespace), [values])[0]


def add_tag(context: RequestContext, namespace: str, name: str) -> MetadefTag:
    with transaction.atomic():
        return write_tags(owned(context, namespace), [name])[0]


def set_tags(context: RequestContext, namespace: str, names: Sequence[str], *, append: bool) -> list[MetadefTag]:
    """Replace all tags, or with ``append`` add tags. An empty list changes nothing, as in Glance."""
    with transaction.atomic():
        record = owned(context, namespace)
        if names and not append:
            MetadefTag.objects.filter(namespace=record).delete()
        return write_tags(record, names)


def change_property(context: RequestContext, namespace: str, name: str, new: str, schema: Values) -> MetadefProperty:
    """Replace a property's schema and its name; raises the errors of ``add_property``."""
    return _change(context, namespace, MetadefProperty, name, {"name": new, "schema": cleaned(schema)})


def change_object(context: RequestContext, namespace: str, name: str, values: Values) -> MetadefObject:
    """Replace all attributes of an object; attributes that ``values`` does not contain become null."""
    return _change(context, namespace, MetadefObject, name, _object(values))


def rename_tag(context: RequestContext, namespace: str, name: str, new: str) -> MetadefTag:
    return _change(context, namespace, MetadefTag, name, {"name": new})


def remove(context: RequestContext, namespace: str, kind: type[C], name: str) -> None:
    """Delete a property, object or tag. Raises NotFoundError, ForbiddenError if the namespace is protected."""
    with transaction.atomic():
        record = owned(context, namespace)
        content = content_of(record, kind, name)
        check_deletable(record, f"{KINDS[kind]} {content.name}")
        content.delete()


def remove_all(context: RequestContext, namespace: str, kind: type[C]) -> None:
    """Delete all properties, objects or tags of a namespace; raises the errors of ``remove``."""
    with transaction.atomic():
        record = owned(context, namespace)
        check_deletable(record, f"namespace {record.namespace}")
        rows_of(kind).filter(namespace=record).delete()


def write_properties(namespace: MetadefNamespace, properties: Mapping[str, Values]) -> list[MetadefProperty]:
    """Create properties in the caller's transaction, which has locked the namespace."""
    rows = [
        MetadefProperty(namespace=namespace, name=check_text("name", name), schema=cleaned(schema))
        for name, schema in properties.items()
    ]
    return _write(namespace, MetadefProperty, rows)


def write_objects(namespace: MetadefNamespace, objects: Sequence[Values]) -> list[MetadefObject]:
    """Create objects, as ``write_properties`` creates properties."""
    return _write(
        namespace, MetadefObject, [MetadefObject(namespace=namespace, **_object(values)) for values in objects]
    )


def write_tags(namespace: MetadefNamespace, names: Sequence[str]) -> list[MetadefTag]:
    """Create tags, as ``write_properties`` creates properties."""
    return _write(
        namespace, MetadefTag, [MetadefTag(namespace=namespace, name=check_text("name", name)) for name in names]
    )


def _object(values: Values) -> dict[str, Any]:
    properties = values.get("properties")
    return {
        "name": check_text("name", values["name"]),
        "description": values.get("description"),
        "required": values.get("required"),
        "properties": None if properties is None else cleaned_all(properties),
    }


def _write(namespace: MetadefNamespace, kind: type[C], rows: list[C]) -> list[C]:
    check_room(rows_of(kind).filter(namespace=namespace), len(rows), MOST, f"{PLURALS[kind]} of a namespace")
    try:
        with transaction.atomic():
            rows_of(kind).bulk_create(rows)
    except IntegrityError:
        raise _taken(namespace, kind, [row.name for row in rows]) from None
    return rows


def _change(context: RequestContext, namespace: str, kind: type[C], name: str, columns: Values) -> C:
    check_text("name", columns["name"])
    with transaction.atomic():
        record = owned(context, namespace)
        content = content_of(record, kind, name)
        for column, value in columns.items():
            setattr(content, column, value)
        try:
            with transaction.atomic():
                content.save(update_fields=[*columns, "updated_at"])
        except IntegrityError:
            raise _taken(record, kind, [columns["name"]]) from None
    return content


def _taken(namespace: MetadefNamespace, kind: type[C], names: Sequence[str]) -> ConflictError:
    which = f"name={names[0][:80]}" if len(names) == 1 else "one of these names"
    text = f"A metadata definition {KINDS[kind]} with {which} already exists in namespace={namespace.namespace}."
    return ConflictError(text, field="name")


def cleaned(schema: Mapping[str, Any]) -> Schema:
    """Return the stored form of a property's schema. Its default and enum values are converted to
    text, as in Glance.
    """
    result = {name: schema[name] for name in FIELDS if schema.get(name) is not None}
    if "default" in result:
        result["default"] = str(result["default"])
    if "enum" in result:
        result["enum"] = _texts(result["enum"])
    if "enum" in result.get("items", {}):
        result["items"] = {**result["items"], "enum": _texts(result["items"]["enum"])}
    return result


def cleaned_all(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Schema]:
    return {name: cleaned(schema) for name, schema in properties.items()}


def _texts(values: list[Any]) -> list[str]:
    return [str(value) for value in values]
