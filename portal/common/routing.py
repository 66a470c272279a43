"""Routing by prefix: Django tries the patterns of a list one after the other, and a service's list is long."""

import re
from collections.abc import Iterable

from django.urls import ResolverMatch, URLPattern, URLResolver
from django.urls.resolvers import RoutePattern

Route = URLPattern | URLResolver
_RESOURCE = re.compile(r"/[^/]*/[A-Za-z0-9_-]*")
"""The version and the resource in a path: ``/v2.1/servers``."""
_FIXED = re.compile(r"\^?((?:[A-Za-z0-9_/-]|\\\.)*)")
"""What a regular expression begins with and matches literally."""


def by_prefix(routes: Iterable[Route]) -> list[Route]:
    """Return routes that match what these do, and are tried only for the paths that begin as they begin.

    A route begins with the first two segments of its pattern when they are fixed, as ``/v2.1/servers`` and
    ``^/v3/auth/tokens/?\\Z`` are; the others are tried for every path.
    """
    return [_ByPrefix(list(routes))]


class _ByPrefix(URLResolver):
    """A list of routes in an index; ``tried`` of a Resolver404 names only those that were."""

    def __init__(self, routes: list[Route]) -> None:
        super().__init__(RoutePattern("", is_endpoint=False), routes)
        prefixes = [(prefix_of(route), route) for route in routes]
        self._everywhere = self._among([route for prefix, route in prefixes if prefix is None])
        self._by_prefix = {
            begin: self._among([route for prefix, route in prefixes if prefix in {None, begin}])
            for begin in {prefix for prefix, _ in prefixes}
            if begin is not None
        }

    def _among(self, routes: list[Route]) -> URLResolver:
        return URLResolver(self.pattern, routes)

    def resolve(self, path: str) -> ResolverMatch:
        found = _RESOURCE.match(path)
        resolver = self._by_prefix.get(found[0]) if found else None
        return (resolver or self._everywhere).resolve(path)


def prefix_of(route: Route) -> str | None:
    """Return what every path that the route matches begins with, ``/v2.1/servers``; None: that is not known."""
    text = str(route.pattern)
    if isinstance(route.pattern, RoutePattern):
        fixed, behind = text.partition("<")[::2]
        ends = fixed == text and isinstance(route, URLPattern)
    else:
        match = _FIXED.match(text)
        assert match is not None  # noqa: S101 - matches the empty text, too
        fixed, behind = match[1].replace("\\.", "."), text[match.end() :]
        if behind[:1] in {"?", "*", "{"}:  # the last character may be missing
            fixed, behind = fixed[:-1], fixed[-1:] + behind
        ends = behind.startswith(("/", "$", "\\Z", "(?:\\."))
    found = _RESOURCE.match(fixed)
    if found is None or found[0].endswith("/"):
        return None
    return found[0] if ends or len(found[0]) < len(fixed) else None
