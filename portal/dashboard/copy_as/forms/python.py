"""*Copy as* Python: a program that uses openstacksdk."""

from collections.abc import Mapping, Sequence
from typing import Any

from portal.dashboard.copy_as.calls import IMPLIED, POSITIONAL, Call, Result, Secret, put
from portal.dashboard.copy_as.forms.place import Place, remarks
from portal.dashboard.copy_as.forms.shell import Variables, secrets_of

WIDEST = 100


def write(calls: Sequence[Call], place: Place) -> str:
    """Return a program with a call for each call."""
    variables = Variables(calls)
    lines = ["import os\n"] if secrets_of(calls) else []
    lines += ["import openstack\n", f"conn = openstack.connect(cloud={place.cloud!r})"]
    for call in calls:
        if call.kind.python == IMPLIED:
            continue
        lines += [f"# {each}" for each in remarks(call, "python")]
        if call.kind.python is not None:
            lines.append(_statement(call, variables))
    return "\n".join(lines) + "\n"


def _statement(call: Call, variables: Variables) -> str:
    positional: list[str] = []
    named: dict[str, Any] = {}
    for name, value, _ in call.written("python"):
        if name == POSITIONAL:
            positional.append(_value(value, variables))
        else:
            put(named, name, value)
    arguments = positional + [f"{name}={_value(value, variables)}" for name, value in named.items()]
    start = f"{variables.names[call]} = " if call in variables.names else ""
    method = f"{start}conn.{call.kind.python}"
    line = f"{method}({', '.join(arguments)})"
    if len(line) <= WIDEST:
        return line
    return f"{method}(\n" + "".join(f"    {each},\n" for each in arguments) + ")"


def _value(value: Any, variables: Variables) -> str:
    """Return a value as an expression; ``repr`` escapes characters that a reader cannot see."""
    if isinstance(value, Result):
        return f"{variables.names[value.of]}.id"
    if isinstance(value, Secret):
        return f"os.environ[{value.name.upper()!r}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_value(each, variables)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each, variables) for each in value) + "]"
    return repr(value)
