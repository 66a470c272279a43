"""Commands of ``openstack`` for bash."""

from collections.abc import Mapping, Sequence
from typing import Any

from portal.dashboard.copy_as.calls import IMPLIED, POSITIONAL, Attribute, Call, Flag, Joined, Piped, Result, Secret
from portal.dashboard.copy_as.forms.place import Place, remarks, since
from portal.dashboard.copy_as.forms.shell import Variables, folded, quote, secret_checks

_VERSIONS = {"compute": "--os-compute-api-version", "volume": "--os-volume-api-version"}


def write(calls: Sequence[Call], place: Place) -> str:
    """Return a command for each call; results are passed on in variables."""
    variables = Variables(calls)
    lines = secret_checks(calls)
    for call in calls:
        if call.kind.command == IMPLIED:
            continue
        lines += [f"# {each}" for each in remarks(call, "option")]
        if call.kind.command is not None:
            lines.append(_command(call, place, variables))
    return "\n".join(lines) + "\n"


def _command(call: Call, place: Place, variables: Variables) -> str:
    version = since(call)
    start = ["openstack", "--os-cloud", quote(place.cloud)]
    start += [_VERSIONS[call.kind.service], version] if version and call.kind.service in _VERSIONS else []
    words = [" ".join([*start, str(call.kind.command)])]
    last: list[str] = []
    for name, value, attribute in call.written("option"):
        if name == POSITIONAL and not isinstance(value, Flag):
            last.append(variables.word(value))
        else:
            words += _option(name, value, attribute, variables)
    if "name" in {each.name for each in call.kind.attributes if each.option == POSITIONAL} and not call.values.get(
        "name"
    ):
        last.append("''")
    if any(each.startswith(("-", "'-", "$'-")) for each in last):
        last.insert(0, "--")
    if call not in variables.names:
        return folded([*words, *last])
    command = folded([*words, "-f value -c id", *last])
    return f"{variables.shell(call)}=$({command})"


def _option(name: str, value: Any, attribute: Attribute | None, variables: Variables) -> list[str]:
    """Return the words of an option: each with its value, one for each entry of a list."""
    if isinstance(value, Flag):
        return [value.text]
    if isinstance(value, bool) and attribute is not None and attribute.flags != ("", ""):
        flag = attribute.flags[0 if value else 1]
        return [flag] if flag else []
    if isinstance(value, list | tuple):
        return [word for each in value for word in _option(name, each, attribute, variables)]
    if isinstance(value, Mapping):
        return [_with(name, quote(f"{key}={each}")) for key, each in value.items()]
    if isinstance(value, Joined):
        parts = [f"{key}={each if isinstance(each, str) else variables.word(each)}" for key, each in value.parts]
        if any(isinstance(each, Result | Secret) for _, each in value.parts):
            return [f"{name} {','.join(parts)}"]
        return [_with(name, quote(",".join(parts)))]
    if isinstance(value, Piped):
        return [f"{name} <(printf %s {quote(value.text)})"]
    return [_with(name, variables.word(value))]


def _with(name: str, word: str) -> str:
    return f"{name}={word}" if word.startswith(("-", "'-", "$'-")) else f"{name} {word}"
