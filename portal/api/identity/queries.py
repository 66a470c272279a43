"""Common parts of the queries of the Identity API's lists."""

from collections.abc import Mapping

from oslo_utils import strutils
from rest_framework.request import Request

from portal.api.common.validation import Schema
from provisioning.common.errors import InvalidInputError


def parameters(schemas: Mapping[str, Schema]) -> Schema:
    """Return the schema of a query whose parameters are optional and repeatable; unknown ones are ignored."""
    return {"type": "object", "properties": {name: {"type": "array", "items": one} for name, one in schemas.items()}}


def boolean(name: str, text: str) -> bool:
    """Return the boolean in the text; empty is true, as in Keystone. Raises InvalidInputError."""
    try:
        return not text or bool(strutils.bool_from_string(text, strict=True))
    except ValueError as error:
        raise InvalidInputError(f"{name} must be true or false.", field=name) from error


def flag(request: Request, name: str) -> bool:
    """Whether the query has this parameter with a value other than false."""
    return name in request.query_params and boolean(name, request.query_params[name])
