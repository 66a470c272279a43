"""The fields of a property's schema that are stored."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]
FIELDS = (
    *("type", "title", "description", "operators", "default", "readonly", "minimum", "maximum", "enum", "pattern"),
    *("minLength", "maxLength", "confidential", "items", "uniqueItems", "minItems", "maxItems", "additionalItems"),
)


def cleaned(schema: Mapping[str, Any]) -> Schema:
    """Return the stored form of a property's schema. Its default and enum values are converted to
    text, as in Glance.
    """
    row = {name: schema[name] for name in FIELDS if schema.get(name) is not None}
    if "default" in row:
        row["default"] = str(row["default"])
    if "enum" in row:
        row["enum"] = _texts(row["enum"])
    if "enum" in row.get("items", {}):
        row["items"] = {**row["items"], "enum": _texts(row["items"]["enum"])}
    return row


def cleaned_all(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Schema]:
    return {name: cleaned(schema) for name, schema in properties.items()}


def _texts(values: list[Any]) -> list[str]:
    return [str(value) for value in values]
