"""Playbooks with the collection openstack.cloud."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from portal.dashboard.copy_as.calls import IMPLIED, Call, Result, Secret, put
from portal.dashboard.copy_as.forms.place import Place, remarks
from portal.dashboard.copy_as.forms.shell import Variables

_MARKERS = ("{{", "{%", "{#")


class _Text(str):
    """A text that Ansible must not expand."""


class _Dumper(yaml.SafeDumper):
    """Writes lists indented, and texts with markers of Jinja as unsafe."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - PyYAML's
        super().increase_indent(flow, indentless=False)


def _unsafe(dumper: yaml.SafeDumper, text: _Text) -> yaml.ScalarNode:
    return dumper.represent_scalar("!unsafe", str(text), style="'")


_Dumper.add_representer(_Text, _unsafe)


def write(calls: Sequence[Call], place: Place) -> str:
    """Return a playbook with a task for each call."""
    variables = Variables(calls)
    tasks: list[dict[str, Any]] = []
    notes: list[str] = []
    for call in calls:
        if call.kind.ansible == IMPLIED:
            continue
        notes += [f"# {each}\n" for each in remarks(call, "ansible")]
        if call.kind.ansible is not None:
            tasks.append(_task(call, place, variables))
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    text = yaml.dump([play], Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=_seen(play))
    return "".join(dict.fromkeys(notes)) + str(text)


def _task(call: Call, place: Place, variables: Variables) -> dict[str, Any]:
    values: dict[str, Any] = {"cloud": place.cloud}
    written = call.written("ansible")
    needs_name = any(each.name == "name" and each.ansible == "name" for each in call.kind.attributes)
    if needs_name and "name" not in [name for name, _, _ in written]:
        values["name"] = call.label  # every module requires one
    for name, value, _ in written:
        put(values, name, _value(value, variables))
    task = {"name": f"The {call.kind.key.replace('_', ' ')}", str(call.kind.ansible): values}
    if call in variables.names:
        task["register"] = variables.names[call]
    return task


def _value(value: Any, variables: Variables) -> Any:
    if isinstance(value, Result):
        name = variables.names[value.of]
        return f"{{{{ {name}.{value.of.kind.ansible_result}.id }}}}"
    if isinstance(value, Secret):
        return f"{{{{ lookup('env', '{value.name.upper()}') }}}}"
    if isinstance(value, Mapping):
        return {str(key): _value(each, variables) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(each, variables) for each in value]
    if isinstance(value, str) and any(each in value for each in _MARKERS):
        return _Text(value)
    return value


def _seen(value: Any) -> bool:
    """Whether a reader can see every character of the texts; otherwise they are escaped."""
    if isinstance(value, Mapping):
        return all(_seen(each) for pair in value.items() for each in pair)
    if isinstance(value, list):
        return all(map(_seen, value))
    return not isinstance(value, str) or all(each.isprintable() or each == "\n" for each in value)
