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
