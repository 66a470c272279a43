"""Conversion of parameters of the Query protocol (``Filter.1.Value.2=x``) into arguments as the model defines them."""

from __future__ import annotations

import base64
import binascii
import functools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils.dateparse import parse_date, parse_datetime

from portal.api.common import ec2_faults
from portal.api.ec2.frame import Ec2Error, errors
from portal.api.ec2.protocol.model import members_of, parameter_name

if TYPE_CHECKING:
    from botocore.model import OperationModel, Shape

MOST_PARAMETERS = 2000
DEEPEST = 12
"""Maximum number of parts of a parameter's name; the model needs ten."""
LONGEST_NAME = 256
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_POSITION = re.compile(r"[0-9]{1,9}", re.ASCII)
_BITS = {"integer": 31, "long": 63}
_WORDS = {"true": True, "1": True, "false": False, "0": False}
FREE = frozenset({"InstanceType", "VolumeType", "AccountAttributeName"})
"""Shapes whose enumerations in the model contain names of AWS; in this cloud their values are names of flavors and
volume types.
"""


@dataclass(slots=True)
class _Node:
    """A parameter, and the parameters whose names extend its name."""

    value: str | None = None
    below: dict[str, _Node] = field(default_factory=dict)


def arguments(operation: OperationModel, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the arguments of an action, with boto3's names and types.

    Raises Ec2Error for too many parameters, or with the name of a parameter that is unknown, missing, repeated, nested
    too deeply or of the wrong type.
    """
    if operation.input_shape is None:
        return {}
    result: dict[str, Any] = _structure(operation.input_shape, _tree(pairs), "")
    return result


def _tree(pairs: Iterable[tuple[str, str]]) -> _Node:
    root = _Node()
    for number, (name, value) in enumerate(pairs):
        if number >= MOST_PARAMETERS:
            raise errors.malformed(f"A request may have {MOST_PARAMETERS} parameters at most")
        if "\0" in value or "\0" in name:
            raise errors.invalid_value(name.replace("\0", ""), value.replace("\0", ""), "It has a null character.")
        parts = name.split(".")
        if len(parts) > DEEPEST or len(name) > LONGEST_NAME:
            raise errors.unknown_parameter(name)
        node = root
        for part in parts:
            node = node.below.setdefault(part, _Node())
        if node.value is not None:
            raise errors.malformed(f"The parameter {name[:120]} is given twice")
        node.value = value
    return root


def _decode(shape: Shape, node: _Node, path: str) -> Any:
    kind: str = shape.type_name
    if kind == "structure":
        return _structure(shape, node, path)
    if kind == "list":
        return _list(shape, node, path)
    if node.below or node.value is None:
        raise errors.unknown_parameter(f"{path}.{next(iter(node.below))}")
    return _SCALARS[kind](shape, node.value, path)


@functools.cache
def _by_parameter(shape: Shape) -> dict[str, tuple[str, Shape]]:
    return {parameter_name(member, name): (name, member) for name, member in members_of(shape).items()}


def _structure(shape: Shape, node: _Node, path: str) -> dict[str, Any]:
    if node.value:
        raise errors.invalid_value(path, node.value, "It has members, so it cannot have a value.")
    members, values = _by_parameter(shape), {}
    for part, below in node.below.items():
        if part not in members:
            raise errors.unknown_parameter(_join(path, part))
        name, member = members[part]
        values[name] = _decode(member, below, _join(path, part))
    for name in shape.required_members:
        if name not in values:
            raise errors.missing_parameter(_join(path, parameter_name(members_of(shape)[name], name)))
    return values


def _list(shape: Shape, node: _Node, path: str) -> list[Any]:
    """Return the members in the order of their numbers; a value without a number is the only member."""
    if node.value:
        if node.below or shape.member.type_name in {"structure", "list"}:
            raise errors.invalid_value(path, node.value, "It is a list.")
        return [_SCALARS[shape.member.type_name](shape.member, node.value, path)]
    for part in node.below:
        if not _POSITION.fullmatch(part):
            raise errors.unknown_parameter(_join(path, part))
    ordered = sorted(node.below, key=int)
    if len({int(part) for part in ordered}) < len(ordered):
        raise errors.malformed(f"The parameter {path} has two members of one number")
    return [_decode(shape.member, node.below[part], _join(path, part)) for part in ordered]


def _string(shape: Shape, value: str, path: str) -> str:
    if ec2_faults.FORBIDDEN.search(value):
        raise Ec2Error("InvalidCharacter", f"The parameter {path[:120]} has a character that XML cannot represent.")
    allowed = shape.enum
    if allowed and shape.name not in FREE and value not in allowed:
        raise errors.invalid_value(path, value, f"It must be one of {', '.join(allowed[:20])}.")
    return value


def _integer(shape: Shape, value: str, path: str) -> int:
    if not _INTEGER.fullmatch(value) or not -(1 << _BITS[shape.type_name]) <= int(value) < 1 << _BITS[shape.type_name]:
        raise errors.invalid_value(path, value, "It is not an integer.")
    return int(value)


def _boolean(shape: Shape, value: str, path: str) -> bool:
    if value.lower() not in _WORDS:
        raise errors.invalid_value(path, value, "It is neither true nor false.")
    return _WORDS[value.lower()]


def _float(shape: Shape, value: str, path: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise errors.invalid_value(path, value, "It is not a number.")
    return number


def _timestamp(shape: Shape, value: str, path: str) -> datetime:
    try:
        time = parse_datetime(value)
        day = parse_date(value) if time is None else None
    except ValueError:
        time = day = None
    if day is not None:
        time = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if time is None:
        raise errors.invalid_value(path, value, "It is not a time like 2030-01-31T12:00:00Z.")
    try:
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as error:
        raise errors.invalid_value(path, value, "The time is out of range.") from error


def _blob(shape: Shape, value: str, path: str) -> bytes:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise errors.invalid_value(path, value, "It is not in base64.") from error


_SCALARS = {
    "string": _string,
    "integer": _integer,
    "long": _integer,
    "boolean": _boolean,
    "float": _float,
    "double": _float,
    "timestamp": _timestamp,
    "blob": _blob,
}


def _join(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part
