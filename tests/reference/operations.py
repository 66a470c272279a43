"""The operations of the references, and the support of each in Novella."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.urls import Resolver404, resolve

from portal.api.compute.server_actions import ACTIONS

HERE = Path(__file__).parent
LINE = re.compile(
    r"(?:(?P<status>\d{3}|~) )?(?P<method>[A-Z]+) (?P<path>\S+)(?: (?P<action>[\w-]+))?(?: \| (?P<remark>.+))?"
)
SERVER_ACTION = "/servers/{server_id}/action"
PREFIX = {
    "identity": "/identity",
    "compute": "/compute/v2.1",
    "image": "/image",
    "network": "/network",
    "volume": "/volume",
}
TITLES = {
    "identity": "Identity v3",
    "compute": "Compute v2.1",
    "image": "Image v2",
    "network": "Network v2.0",
    "volume": "Block Storage v3",
}
ANY = {"resource_type": "networks"}
"""Example values for path parameters that are not ids."""
DONE, NOT_OFFERED, MISSING = "done", "answered as not offered", "missing"


@dataclass(frozen=True)
class Operation:
    """One operation; ``status`` is the HTTP status of an operation that is not offered, ``~`` if it varies."""

    service: str
    section: str
    method: str
    path: str
    action: str | None
    status: str | None
    remark: str

    @property
    def name(self) -> str:
        """Method, path and action for the page."""
        return f"{self.method} {self.path}" + (f" ({self.action})" if self.action else "")

    @property
    def key(self) -> tuple[str, str, str | None]:
        """Method, path and action without the names of parameters, and GET for HEAD, as in ``calls.Call.key``."""
        return "GET" if self.method == "HEAD" else self.method, re.sub(r"\{\w+\}", "{}", self.path), self.action

    @property
    def whole_path(self) -> str:
        """The path with the prefix of its service, with parameters in braces."""
        if self.service == "compute" and self.path in {"/", "/v2.1/"}:
            return "/compute" + self.path
        return PREFIX[self.service] + self.path

    def url(self, **ids: str) -> str:
        """Return the path with parameters replaced by ``ids`` or by example values."""
        return re.sub(r"\{(\w+)\}", lambda match: (ANY | ids).get(match[1], "1"), self.whole_path)

    @property
    def outcome(self) -> str:
        """DONE, NOT_OFFERED or MISSING, from the routes and ``status``."""
        if not self.is_routed():
            return MISSING if self.status in {None, "~"} else NOT_OFFERED
        return DONE if self.status is None else NOT_OFFERED

    def is_routed(self) -> bool:
        """Return whether a view has this method at this path and supports the action."""
        try:
            view = resolve(self.url()).func.cls  # type: ignore[attr-defined]
        except (Resolver404, AttributeError):
            return False
        method = "get" if self.method == "HEAD" else self.method.lower()
        if view.__name__ == "NoSuchResource" or not hasattr(view, method) or method not in view.http_method_names:
            return False
        return self.path != SERVER_ACTION or self.action in ACTIONS


def operations(service: str) -> Iterator[Operation]:
    """Read the list of a service's reference."""
    section = ""
    for line in (HERE / f"{service}.txt").read_text().splitlines():
        if line.startswith("= "):
            section = line[2:]
        elif line and not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            yield Operation(
                service,
                section,
                match["method"],
                match["path"],
                match["action"],
                match["status"],
                match["remark"] or "",
            )


def page() -> str:
    """Return the content of docs/operations.md."""
    parts = [
        "# Operations of the references\n",
        "The support of every operation in the references of OpenStack's Identity API v3, Compute API v2.1, Image API"
        " v2, Networking API v2.0 and Block Storage API v3; [the APIs](api.md) have the details. A test generates this"
        " page from the routes: an operation is *done*, *answered as not offered* (with the status of the reference and"
        " a message), or *missing*; `HEAD` counts as the `GET` of its path. Operations of"
        " an unsupported extension of the Networking API are listed below the extension's name.\n",
    ]
    for service, title in TITLES.items():
        result = list(operations(service))
        outcomes = {each.key: each.outcome for each in result}
        count = {outcome: [*outcomes.values()].count(outcome) for outcome in (DONE, NOT_OFFERED, MISSING)}
        summary = ", ".join(f"{many} {outcome}" for outcome, many in count.items())
        parts.append(f"## {title}\n\n{len(outcomes)} operations: {summary}.\n")
        for section in dict.fromkeys(each.section for each in result):
            rows = [_row(each) for each in result if each.section == section]
            parts.append(f"### {section}\n\n| operation | | |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(each: Operation) -> str:
    remark = each.remark or (f"{each.status}" if each.outcome == NOT_OFFERED and each.status != "~" else "")
    return f"| `{each.name}` | {each.outcome} | {remark} |"
