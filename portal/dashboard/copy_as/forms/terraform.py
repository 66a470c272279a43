"""Resources of the Terraform provider openstack."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from portal.dashboard.copy_as.calls import IMPLIED, Attribute, Call, Result, Secret, put
from portal.dashboard.copy_as.forms.place import Place, remarks
from portal.dashboard.copy_as.forms.shell import numbered, secrets_of

PROVIDER = """terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}
"""
_SLUG = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


def write(calls: Sequence[Call], place: Place) -> str:
    """Return a configuration with a resource for each call."""
    labels = _labels(calls)
    parts = [PROVIDER, f'provider "openstack" {{\n  cloud = {_string(place.cloud)}\n}}\n']
    parts += [f'variable "{name}" {{\n  type      = string\n  sensitive = true\n}}\n' for name in secrets_of(calls)]
    for call in calls:
        if call.kind.terraform == IMPLIED:
            continue
        notes = "".join(f"# {each}\n" for each in remarks(call, "terraform"))
        parts.append(notes + (_resource(call, labels) if call.kind.terraform is not None else ""))
    return "\n".join(parts)


def _labels(calls: Sequence[Call]) -> dict[Call, str]:
    """Return the name of each call's resource, unique within its type."""
    result: dict[Call, str] = {}
    for call in calls:
        text = _SLUG.sub("_", call.label)[:64].strip("_-")
        text = text if _NAME.fullmatch(text) else f"{call.kind.key}_{text}".rstrip("_")
        taken = [label for each, label in result.items() if each.kind.terraform == call.kind.terraform]
        result[call] = numbered(text, taken)
    return result


def _resource(call: Call, labels: Mapping[Call, str]) -> str:
    plain: dict[str, Any] = {}
    blocks: list[str] = []
    for name, value, attribute in call.written("terraform"):
        if isinstance(attribute, Attribute) and attribute.block:
            blocks += [_block(name, each, labels) for each in value]
        else:
            put(plain, name, value)
    inside = _aligned({name: _value(value, labels, 2) for name, value in plain.items()}, 2) + "".join(
        f"\n{each}" for each in blocks
    )
    return f'resource "{call.kind.terraform}" "{labels[call]}" {{\n{inside}}}\n'


def _block(name: str, values: Mapping[str, Any], labels: Mapping[Call, str]) -> str:
    filled = {key: value for key, value in values.items() if value not in (None, "")}
    lines = _aligned({key: _value(value, labels, 4) for key, value in filled.items()}, 4)
    return f"  {name} {{\n{lines}  }}\n"


def _aligned(values: Mapping[str, str], indent: int) -> str:
    """Return lines with values that are aligned as by ``terraform fmt``: consecutive values of one line begin in the
    same column, and a value of several lines begins after its name.
    """
    text = ""
    for several, group in groupby(values.items(), lambda item: "\n" in item[1]):
        items = list(group)
        width = 0 if several else max(len(name) for name, _ in items)
        text += "".join(f"{' ' * indent}{name:<{width}} = {value}\n" for name, value in items)
    return text


def _value(value: Any, labels: Mapping[Call, str], indent: int) -> str:
    if isinstance(value, Result):
        return f"{value.of.kind.terraform}.{labels[value.of]}.{value.part}"
    if isinstance(value, Secret):
        return f"var.{value.name}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        entries = {_string(str(key)): _value(each, labels, indent + 2) for key, each in value.items()}
        inner = _aligned(entries, indent + 2)
        return f"{{\n{inner}{' ' * indent}}}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each, labels, indent) for each in value) + "]"
    return _string(str(value))


def _string(text: str) -> str:
    """Return a quoted string without interpolation; characters that a reader cannot see are escaped."""
    quoted = ""
    for each in text:
        if each.isprintable() and each not in '"\\':
            quoted += each
        elif each in '"\\\n\r\t':
            quoted += json.dumps(each)[1:-1]
        else:
            quoted += f"\\u{ord(each):04x}" if ord(each) < 1 << 16 else f"\\U{ord(each):08x}"
    return '"' + quoted.replace("${", "$${").replace("%{", "%%{") + '"'
