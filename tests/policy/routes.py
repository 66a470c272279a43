"""The operations of the four APIs as their routes have them: method, path and the view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern

from portal.routing import websocket_router

PREFIXES = {
    "compute": "/compute/v2.1",
    "identity": "/identity",
    "image": "/image",
    "network": "/network",
    "volume": "/volume/v3",
}
"""Service → where it is; the paths of its rules' operations begin behind that."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
Operation = tuple[str, str]


def operations(*, public: bool = False) -> Iterator[tuple[Operation, type[Any]]]:
    """Every method and path of every view that asks a rule, or of all; names of parameters are left out."""
    for route, pattern in _patterns(get_resolver()):
        view = getattr(pattern.callback, "cls", None)
        service = next((prefix for prefix in PREFIXES.values() if route.startswith(prefix + "/")), None)
        if view is None or service is None or (view.public and not public):
            continue
        path = route.removeprefix(service)
        offered = (method for method in METHODS if method.lower() in view.http_method_names)
        yield from (((method, path), view) for method in offered if hasattr(view, method.lower()))


def pages() -> set[Operation]:
    """Every method and path that is no API's."""
    result = {(method, path) for path, _ in _patterns(get_resolver()) for method in METHODS}
    return {operation for operation in result if not any(operation[1].startswith(f"/{api}") for api in PREFIXES)}


def patterns(urls: str) -> list[URLPattern]:
    """Every pattern of a module of addresses."""
    return [pattern for _, pattern in _patterns(URLResolver(RegexPattern(""), urls))]


def sockets() -> set[Operation]:
    """Every WebSocket."""
    routes = websocket_router(lambda *_: "").routes
    return {("GET", "/" + _plain(str(route.pattern))) for route in routes if str(route.pattern)}


def nameless(path: str) -> str:
    """``/servers/{server_id}?all_tenants=1`` and ``/servers/{server_id}/action (os-stop)`` without what varies."""
    return re.sub(r"\{[^}]*\}", "{}", path.partition("?")[0].partition(" ")[0])


def _patterns(resolver: URLResolver, above: str = "") -> Iterator[tuple[str, URLPattern]]:
    for result in resolver.url_patterns:
        where = above + str(result.pattern)
        if isinstance(result, URLResolver):
            yield from _patterns(result, where)
        else:
            yield "/" + _plain(where), result


def _plain(pattern: str) -> str:
    r"""``^/v3/users/(?P<user_id>[^/]+)/?\Z`` → ``/v3/users/{}``."""
    pattern = re.sub(r"\(\?P<\w+>[^)]*\)", "{}", pattern)
    pattern = pattern.replace(r"(?:\.json)?", "").replace(r"\.", ".")
    pattern = re.sub(r"/\?(\\Z|\$)|\\Z|\$|\^", "", pattern)
    return re.sub(r"<[^>]*>", "{}", pattern)
