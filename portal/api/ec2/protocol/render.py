"""Results in boto3's shapes to the XML of the Query protocol."""

import base64
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import OperationModel, Shape

from portal.api.ec2.protocol.model import element_name, members_of

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = "http://ec2.amazonaws.com/doc/{version}/"
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot say."""


def body(operation: OperationModel, result: dict[str, Any]) -> str:
    """Return what the document says.  None is left out; an action without a result says ``<return>true</return>``.

    Raises LookupError for what the model does not have.
    """
    shape = operation.output_shape
    return "".join(_structure(shape, result)) if shape is not None else "<return>true</return>"


def document(operation: OperationModel, said: str, *, request_id: str, version: str) -> bytes:
    """Return the document around what ``body`` made."""
    name = f"{operation.name}Response"
    space = NAMESPACE.format(version=version)
    return f'{HEAD}<{name} xmlns="{space}"><requestId>{_text(request_id)}</requestId>{said}</{name}>'.encode()


def fault(code: str, message: str, request_id: str) -> bytes:
    return (
        f"{HEAD}<Response><Errors><Error><Code>{_text(code)}</Code><Message>{_text(message)}</Message></Error></Errors>"
        f"<RequestID>{_text(request_id)}</RequestID></Response>"
    ).encode()


def _structure(shape: Shape, value: dict[str, Any]) -> Iterator[str]:
    members = members_of(shape)
    unknown = value.keys() - members.keys()
    if unknown:
        raise LookupError(f"{shape.name} has no {', '.join(sorted(unknown))}.")
    for name, member in members.items():
        if value.get(name) is not None:
            yield _element(element_name(member, name), member, value[name])


def _element(name: str, shape: Shape, value: Any) -> str:
    kind: str = shape.type_name
    if kind == "structure":
        inner = "".join(_structure(shape, value))
    elif kind == "list":
        item = shape.member.serialization.get("name", "item")
        inner = "".join(_element(item, shape.member, each) for each in value)
    else:
        inner = _SCALARS[kind](value)
    return f"<{name}>{inner}</{name}>"


def _text(value: object) -> str:
    return escape(_FORBIDDEN.sub("�", str(value)))


def _timestamp(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


_SCALARS: dict[str, Callable[[Any], str]] = {
    "string": _text,
    "integer": lambda value: str(int(value)),
    "long": lambda value: str(int(value)),
    "boolean": lambda value: "true" if value else "false",
    "float": lambda value: repr(float(value)),
    "double": lambda value: repr(float(value)),
    "timestamp": _timestamp,
    "blob": lambda value: base64.b64encode(value).decode(),
}
