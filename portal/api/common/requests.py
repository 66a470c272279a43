"""Microversions, the API version of a request (API-SIG microversion specification), and the validation of requests
against JSON schemas, with Nova's error messages.
"""

import base64
import binascii
import functools
import ipaddress
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.exceptions import best_match
from rest_framework.exceptions import NotAcceptable
from rest_framework.request import Request

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id

Version = tuple[int, int]
OLDEST: Version = (0, 0)
NEWEST: Version = (999, 999)
"""Upper end of an open range: ``(2, 26), NEWEST``."""

_FORM = re.compile(r"([1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,3})", re.ASCII)


def text_of(version: Version) -> str:
    """Format a version as ``2.1``."""
    return f"{version[0]}.{version[1]}"


@dataclass(frozen=True, slots=True)
class Microversions:
    """The microversions that a service supports and the headers that carry them."""

    service_type: str
    minimum: Version
    maximum: Version
    legacy_header: str | None = None
    """Older header with the bare version, e.g. ``X-OpenStack-Nova-API-Version``."""

    def requested(self, request: Request) -> Version:
        """Return the version of the request: the minimum without a header, the maximum for ``latest``.

        Raises InvalidInputError if it is malformed and NotAcceptable (406) if it is out of range.
        """
        text = self._header(request)
        if text is None:
            return self.minimum
        if text == "latest":
            return self.maximum
        found = _FORM.fullmatch(text)
        if found is None:
            raise InvalidInputError(
                f"API Version String {text[:40]!r} is of invalid format. Must be of format MajorNum.MinorNum."
            )
        version = (int(found[1]), int(found[2]))
        if not self.minimum <= version <= self.maximum:
            raise NotAcceptable(
                f"Version {text} is not supported by the API. "
                f"Minimum is {text_of(self.minimum)} and maximum is {text_of(self.maximum)}."
            )
        return version

    def _header(self, request: Request) -> str | None:
        """Return the requested version; of several entries for this service in the header the last applies."""
        for part in reversed(request.headers.get("OpenStack-API-Version", "").split(",")):
            name, _, version = part.strip().partition(" ")
            if name.lower() == self.service_type and version.strip():
                return version.strip().lower()
        legacy = request.headers.get(self.legacy_header, "").strip() if self.legacy_header else ""
        return legacy.lower() or None

    def headers(self, version: Version) -> dict[str, str]:
        headers = {"OpenStack-API-Version": f"{self.service_type} {text_of(version)}"}
        if self.legacy_header:
            headers[self.legacy_header] = text_of(version)
        return headers

    @property
    def vary(self) -> tuple[str, ...]:
        """The request headers that a response varies with."""
        return ("OpenStack-API-Version", *([self.legacy_header] if self.legacy_header else []))


Schema = dict[str, Any]


def inner(properties: Mapping[str, Schema], required: Sequence[str] = (), *, closed: bool = True) -> Schema:
    """Return the schema of an object; ``closed``: without additional names."""
    result: Schema = {"type": "object", "properties": dict(properties)}
    if closed:
        result["additionalProperties"] = False
    return result | ({"required": [*required]} if required else {})


def body(name: str, properties: Mapping[str, Schema], required: Sequence[str] = (), *, closed: bool = True) -> Schema:
    """Return the schema of a body with one object: ``{name: {…}}``; ``closed``: without additional names in both."""
    one = inner(properties, required, closed=closed)
    whole: Schema = {"type": "object", "properties": {name: one}, "required": [name]}
    return whole | ({"additionalProperties": False} if closed else {})


SECRETS = frozenset(
    {"password", "original_password", "adminPass", "admin_pass", "user_data", "private_key", "secret", "id_token"}
)
"""Fields whose value is never repeated in a fault."""
LONGEST_ECHO = 120
"""Maximum number of characters of an invalid value that a fault repeats."""
MOST_ERRORS = 100
"""Maximum number of validation errors examined to choose the one to report."""

formats = FormatChecker(formats=())
"""The formats available to schemas."""


@formats.checks("uuid")
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or read_id(value) is not None


@formats.checks("ipv4", raises=ValueError)
def _is_ipv4(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.IPv4Address(value))


@formats.checks("ipv6", raises=ValueError)
def _is_ipv6(value: object) -> bool:
    return not isinstance(value, str) or ("%" not in value and bool(ipaddress.IPv6Address(value)))


@formats.checks("base64", raises=(binascii.Error, ValueError))
def _is_base64(value: object) -> bool:
    if isinstance(value, str):
        base64.b64decode("".join(value.split()), validate=True)
    return True


_compiled: dict[int, tuple[Schema, Draft202012Validator]] = {}


def _validator(schema: Schema) -> Draft202012Validator:
    """Return the validator; each schema object is compiled once."""
    known = _compiled.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    if len(_compiled) >= 2048:
        _compiled.clear()
    made = Draft202012Validator(schema, format_checker=formats)
    _compiled[id(schema)] = (schema, made)
    return made


def validate(body: Any, schema: Schema, place: str = "field/attribute") -> Any:
    """Return ``body`` unchanged, or raise InvalidInputError with a message in Nova's format.

    "Invalid input for field/attribute name. Value: ''. '' is too short"
    """
    error = best_match(itertools.islice(_validator(schema).iter_errors(body), MOST_ERRORS))
    if error is None:
        return body
    field = _field(error)
    message = _message(error)
    if not error.absolute_path:
        raise InvalidInputError(message, field=field)
    name = _place(error.absolute_path)
    shown = "" if _is_secret(error) or isinstance(error.instance, dict | list) else f" Value: {_short(error.instance)}."
    raise InvalidInputError(f"Invalid input for {place} {name}.{shown} {message}", field=field)


def _place(path: Iterable[str | int]) -> str:
    """Return the last name of the path, with the indexes after it: ``networks.0.uuid`` → ``uuid``, ``a.tags.3`` →
    ``tags.3``.
    """

    def add(sofar: str, part: str | int) -> str:
        return part if isinstance(part, str) else f"{sofar}.{part}" if sofar else str(part)

    return functools.reduce(add, path, "")


def _field(error: ValidationError) -> str | None:
    """Return the name of the invalid field. For a missing or unexpected field this is the name of the field itself, not
    of the object that contains it.
    """
    schema = error.schema if isinstance(error.schema, dict) else {}
    if error.validator == "required" and isinstance(error.instance, dict):
        required: list[str] = schema.get("required", [])
        return next((name for name in required if name not in error.instance), None)
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = schema.get("properties", {})
        return next((name for name in error.instance if name not in known), None)
    return next((part for part in reversed(error.absolute_path) if isinstance(part, str)), None)


def _is_secret(error: ValidationError) -> bool:
    return any(part in SECRETS for part in error.absolute_path)


def _message(error: ValidationError) -> str:
    """Return jsonschema's message, without the value if it is secret or long."""
    shown = repr(error.instance)
    if _is_secret(error) or isinstance(error.instance, dict | list):
        return {
            "type": f"It is not of type {error.validator_value!r}",
            "minLength": "It is too short",
            "maxLength": "It is too long",
            "minItems": "It is too short",
            "maxItems": "It is too long",
            "required": error.message if error.validator == "required" else "",
            "additionalProperties": _unexpected(error),
            "format": f"It is not {error.validator_value}",
        }.get(str(error.validator), "It is not valid")
    short = _short(error.instance)
    return error.message.replace(shown, short) if short != shown else error.message


def _unexpected(error: ValidationError) -> str:
    name = _field(error)
    return f"Additional properties are not allowed ({_short(name)} was unexpected)" if name else "It is not valid"


def _short(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a number sent in digits is shown in digits, not as 1e+20
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_ECHO else text[: LONGEST_ECHO - 1] + "…"
