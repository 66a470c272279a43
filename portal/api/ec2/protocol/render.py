"""Serialization of results in boto3's format as XML of the Query protocol."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from portal.api.common.ec2_faults import HEAD, text
from portal.api.ec2.protocol.model import element_name, members_of

if TYPE_CHECKING:
    from botocore.model import OperationModel, Shape

NAMESPACE = "http://ec2.amazonaws.com/doc/{version}/"


def body(operation: OperationModel, result: dict[str, Any]) -> str:
    """Return the content of the document. Members whose value is None are omitted; an action without a result has
    ``<return>true</return>``.

    Raises LookupError for members that the model does not have.
    """
    shape = operation.output_shape
    return _structure(shape, result) if shape is not None else "<return>true</return>"


def document(operation: OperationModel, body: str, *, request_id: str, version: str) -> bytes:
    """Return the document around the output of ``body``."""
    name = f"{operation.name}Response"
    space = NAMESPACE.format(version=version)
    return f'{HEAD}<{name} xmlns="{space}"><requestId>{text(request_id)}</requestId>{body}</{name}>'.encode()


Writer = Callable[[Any], str]


@functools.cache
def _members(shape: Shape) -> dict[str, tuple[str, str, Writer]]:
    """Return the members of a structure: start tag, end tag, and the writer of the value."""
    result = {}
    for name, member in members_of(shape).items():
        element = element_name(member, name)
        result[name] = (f"<{element}>", f"</{element}>", _writer(member))
    return result


def _writer(shape: Shape) -> Writer:
    kind: str = shape.type_name
    if kind == "structure":
        return functools.partial(_structure, shape)
    if kind == "list":
        item = shape.member.serialization.get("name", "item")
        return functools.partial(_list, f"<{item}>", f"</{item}>", _writer(shape.member))
    return _SCALARS[kind]


def _structure(shape: Shape, value: dict[str, Any]) -> str:
    parts: list[str] = []
    members = _members(shape)
    for name, each in value.items():
        member = members.get(name)
        if member is None:
            raise LookupError(f"{shape.name} has no {name}.")
        if each is not None:
            opening, closing, write = member
            parts += (opening, write(each), closing)
    return "".join(parts)


def _list(opening: str, closing: str, write: Writer, value: Iterable[Any]) -> str:
    return "".join([f"{opening}{write(each)}{closing}" for each in value])


def _timestamp(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_SCALARS: dict[str, Writer] = {
    "string": text,
    "integer": lambda value: str(int(value)),
    "long": lambda value: str(int(value)),
    "boolean": lambda value: "true" if value else "false",
    "float": lambda value: repr(float(value)),
    "double": lambda value: repr(float(value)),
    "timestamp": _timestamp,
    "blob": lambda value: base64.b64encode(value).decode(),
}
