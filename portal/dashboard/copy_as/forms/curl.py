"""Requests of curl for bash, with jq where a request needs the result of an earlier one."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote as quote_url

from portal.dashboard.copy_as.calls import IMPLIED, WHOLE, Call, Result, Secret, put, results_in, secrets_in
from portal.dashboard.copy_as.forms.place import Place, remarks, since
from portal.dashboard.copy_as.forms.shell import Variables, quote, secret_checks

NARROW = 72
"""Characters of a body that stays on one line."""
Name = Callable[[Any], str]


def write(calls: Sequence[Call], place: Place) -> str:
    """Return a request for each call."""
    variables = Variables(calls)
    lines = [f"TOKEN=$(openstack --os-cloud {quote(place.cloud)} token issue -f value -c id)", *secret_checks(calls)]
    for call in calls:
        if call.kind.path == IMPLIED:
            continue
        lines += [f"# {each}" for each in remarks(call, "body")]
        lines.append(_request(call, place, variables))
    return "\n".join(lines) + "\n"


def body_of(call: Call) -> Any:
    """Return the request's JSON body; None if it has no body."""
    kind = call.kind
    if kind.no_body:
        return None
    if kind.null:
        return {kind.envelope: None}
    whole: dict[str, Any] = {}
    inner = whole.setdefault(kind.envelope, {}) if kind.envelope else whole
    for name, value, _ in call.written("body"):
        if name == WHOLE:
            return value
        if name.startswith("^"):
            put(whole, name[1:], value)
        else:
            put(inner, name, value)
    return whole


def path_of(call: Call, word: Callable[[Any], str]) -> str:
    """Return the path below the endpoint; ``word`` writes the values in it."""
    return call.kind.path.format(**{name: word(value) for name, value in call.values.items()})


def _request(call: Call, place: Place, variables: Variables) -> str:
    def word(value: Any) -> str:
        return f"${variables.shell(value.of)}" if isinstance(value, Result) else quote_url(str(value), safe="")

    kind, version = call.kind, since(call)
    url = f"{place.urls[kind.service]}/{path_of(call, word)}"
    sent = next((value for name, value, _ in call.written("body") if name == "@"), None)
    lines = [f"curl -fsS -X {kind.method} {url if '$' not in url else f'{chr(34)}{url}{chr(34)}'}"]
    lines[0] = lines[0] if "$" in url else f"curl -fsS -X {kind.method} {quote(url)}"
    lines.append('-H "X-Auth-Token: $TOKEN"')
    if version:
        lines.append(f"-H {quote(f'OpenStack-API-Version: {kind.service} {version}')}")
    if sent is not None:
        lines += ["-H 'Content-Type: application/octet-stream'", f"-T {quote(str(sent))}"]
    elif (body := body_of(call)) is not None:
        lines += [f"-H {quote(f'Content-Type: {kind.content}')}", f"-d {_data(body, variables)}"]
    command = " \\\n    ".join(lines)
    if call not in variables.names:
        return command
    where = {"": f".{kind.envelope}.id", ".": ".id"}.get(kind.answer, f".{kind.answer}.id")
    return f"{variables.shell(call)}=$({command} |\n    jq -r {quote(where)})"


def _data(body: Any, variables: Variables) -> str:
    """Return the body as one word of the shell. jq inserts variables, so that their content is always a JSON string."""
    names: dict[str, str] = {}

    def name_of(value: Any) -> str:
        text = variables.shell(value.of) if isinstance(value, Result) else value.name
        names[text.lower()] = text.upper()
        return f"${text.lower()}"

    text = json_text(body, name_of)
    if not any(True for _ in (*secrets_in(body), *results_in(body))):
        return quote(text)
    arguments = " ".join(f'--arg {low} "${high}"' for low, high in names.items())
    return f'"$(jq -n {arguments} {quote(text)})"'


def json_text(value: Any, name_of: Name, indent: int = 0) -> str:
    """Return a value as JSON, on one line if it is short; ``name_of`` writes results and secrets."""
    flat = _flat(value, name_of)
    if len(flat) + indent <= NARROW or not isinstance(value, Mapping | list | tuple) or not value:
        return flat
    inner, end = " " * (indent + 2), " " * indent
    if isinstance(value, Mapping):
        rows = [f"{_string(str(key))}: {json_text(each, name_of, indent + 2)}" for key, each in value.items()]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{end}}}"
    rows = [json_text(each, name_of, indent + 2) for each in value]
    return "[\n" + ",\n".join(inner + row for row in rows) + f"\n{end}]"


def _flat(value: Any, name_of: Name) -> str:
    if isinstance(value, Result | Secret):
        return name_of(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_string(str(key))}: {_flat(each, name_of)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flat(each, name_of) for each in value) + "]"
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    """Return a JSON string; characters that a reader cannot see are escaped."""
    return "".join(
        each if each.isprintable() else json.dumps(each)[1:-1] for each in json.dumps(text, ensure_ascii=False)
    )
