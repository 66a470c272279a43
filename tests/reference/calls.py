"""API calls in the notation of docs/api.md, and the calls of the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.urls import Resolver404, resolve

from portal.api.common.views import NoSuchResource
from portal.api.openapi.document import Endpoints, named
from portal.common.http.routing import route_of_service

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
VERSIONS = {
    "identity": "/identity/v3",
    "compute": "/compute/v2.1",
    "image": "/image/v2",
    "network": "/network/v2.0",
    "volume": "/volume/v3",
}
"""Prefixes that the page omits; paths that begin with the name of the service are complete."""


class Call(NamedTuple):
    """A method and a full path; ``action`` is the key of the body at a path with several actions."""

    method: str
    path: str
    action: str | None = None

    @property
    def key(self) -> Call:
        """The call with unnamed path parameters, and GET for HEAD, for comparisons."""
        path = re.sub(r"\{[^}]+\}", "{}", self.path).removesuffix(".json")
        path = path.rstrip("/") if len(path) > 1 else path
        return Call("GET" if self.method == "HEAD" else self.method, path, self.action)

    def is_answered(self) -> bool:
        """Return whether a view has this method at this path."""
        try:
            view = resolve(re.sub(r"\{[^}]+\}", "1", self.path)).func.cls  # type: ignore[attr-defined]
        except (Resolver404, AttributeError):
            return False
        method = self.key.method.lower()
        if issubclass(view, NoSuchResource):
            return False
        return hasattr(view, method) and method in view.http_method_names


def read(cell: str, service: str) -> list[Call]:
    """Parse a cell such as ``GET``, ``POST /users``, ``GET /users/{id}``, with actions after their path."""
    values: list[Call] = []
    methods: list[str] = []
    fresh = True
    for words in re.findall(r"`([^`]+)`", cell):
        first, _, path = words.rpartition(" ")
        if words in METHODS or first in METHODS:
            methods = [*([] if fresh else methods), first or words]
            fresh = False
        if path.startswith("/"):
            fresh = True
            whole = path if re.match(rf"/{service}(/|$)", path) else VERSIONS[service] + path
            values += (Call(method, whole) for method in methods)
        elif words not in METHODS:
            bare = values[-1] if values[-1].action is None else values[-1]._replace(action=None)
            if values[-1].action is None:
                values.pop()
            values.append(bare._replace(action=words))
    return values


def written(calls: Iterable[Call], service: str) -> str:
    """Return the inverse of ``read``: a cell with methods grouped by path, and paths without their prefix."""
    by_path: dict[str, list[str]] = {}
    actions: dict[str, list[str]] = {}
    for call in calls:
        if call.action is None:
            by_path.setdefault(call.path, []).append(call.method)
        else:
            actions.setdefault(f"{call.method} {_short(call.path, service)}", []).append(call.action)
    for methods in by_path.values():
        methods.sort(key=METHODS.index)
    parts = [
        ", ".join([*(f"`{method}`" for method in methods[:-1]), f"`{methods[-1]} {_short(path, service)}`"])
        for path, methods in by_path.items()
    ]
    parts += (f"`{where}` with {', '.join(f'`{name}`' for name in names)}" for where, names in actions.items())
    return ", ".join(parts)


def served(service: str) -> Iterator[Call]:
    """Yield every call and action of a service's routes, except Compute's v2.0, which equals v2.1."""
    endpoints = Endpoints(patterns=[route_of_service(service)]).get_api_endpoints()
    for path, _, method, callback in endpoints:
        call = Call(method, named(callback.cls, path))
        actions = callback.cls.action_rules if method == "POST" else ()
        yield from (call._replace(action=name) for name in actions or (None,))


def _short(path: str, service: str) -> str:
    return path.removeprefix(VERSIONS[service]) if path.startswith(f"{VERSIONS[service]}/") else path
