"""Routing by prefix, as Django tries the patterns of a list one after the other and a service has many."""

import re
from collections.abc import Iterable, Mapping

from django.urls import ResolverMatch, URLPattern, URLResolver, get_resolver, include, path
from django.urls.resolvers import RoutePattern

Route = URLPattern | URLResolver
_RESOURCE = re.compile(r"/[^/]*/[A-Za-z0-9_-]*")
"""The version and the resource in a path: ``/v2.1/servers``."""
_PROJECT = re.compile(r"(/[^/]*)/([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=/|\Z)")
"""The version and the project in a path: ``/v3/0123…``."""
_FIXED = re.compile(r"\^?((?:[A-Za-z0-9_/-]|\\\.)*)")
"""The literal prefix of a regular expression."""


def by_prefix(routes: Iterable[Route]) -> list[Route]:
    r"""Return routes that match the same paths, each tried only for paths with its prefix.

    The prefix is the first two segments of the pattern if they are fixed, as in ``/v2.1/servers`` and
    ``^/v3/auth/tokens/?\Z``. A route without a fixed prefix is tried for every path.
    """
    return [_ByPrefix(list(routes))]


def by_service(services: Mapping[str, str], others: Iterable[Route]) -> list[Route]:
    """Return the routes of several services, each below its name, and the routes of all other paths.

    ``services``: name → dotted path of its routes, which begin with a slash and end with one that matches everything.
    """
    return [_ByService({name: path(name, include(urls)) for name, urls in services.items()}, list(others))]


def with_project(routes: Iterable[Route]) -> list[Route]:
    """Return routes that also match with a project id after the version: ``/v3/{id}/volumes``.

    Views are then called with it as ``url_project``.
    """
    return [_WithProject(RoutePattern("", is_endpoint=False), list(routes))]


def with_or_without_slash(routes: Iterable[Route]) -> list[Route]:
    """Return routes that also match with a trailing slash: ``/v2.1/servers/detail/``.

    A redirect would lose the body of a POST. A list whose members have routes is not found with a slash,
    ``/v2.1/servers/``, as in OpenStack's services: the client has omitted the id. The last route matches everything
    else.
    """
    return [_WithOrWithoutSlash(RoutePattern("", is_endpoint=False), list(routes))]


class _WithOrWithoutSlash(URLResolver):
    """Removes a trailing slash from a path, except from paths of version documents and of members without an id."""

    def resolve(self, path: str) -> ResolverMatch:
        if not path.endswith("/") or path.count("/") <= 2:
            return super().resolve(path)
        nothing = super().resolve("/nothing/at all")
        named = super().resolve(f"{path}id").func is not nothing.func
        return super().resolve(path if named else path[:-1])


class _WithProject(URLResolver):
    """Removes the project from a path before the routes are tried."""

    def resolve(self, path: str) -> ResolverMatch:
        matched = _PROJECT.match(path)
        if matched is None:
            return super().resolve(path)
        match = super().resolve(matched[1] + path[matched.end() :])
        match.kwargs["url_project"] = matched[2]
        return match


class _ByService(URLResolver):
    """Selects the service by the first segment of a path; ``/images/`` is not tried for the service ``image``."""

    def __init__(self, services: Mapping[str, URLResolver], others: list[Route]) -> None:
        super().__init__(RoutePattern("", is_endpoint=False), [*services.values(), *others])
        self.routes_of = services
        self._services = {name: URLResolver(self.pattern, [service]) for name, service in services.items()}
        self._others = URLResolver(self.pattern, others)

    def resolve(self, path: str) -> ResolverMatch:
        return self._services.get(path.partition("/")[0], self._others).resolve(path)


def route_of_service(name: str) -> URLResolver:
    """Return a service's part of the root routing. Raises KeyError for an unknown service."""
    tops = (top for top in get_resolver().url_patterns if isinstance(top, _ByService))
    return next(top.routes_of[name] for top in tops)


class _ByPrefix(URLResolver):
    """A list of routes with an index; ``tried`` of a Resolver404 has only the routes that were tried."""

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
        matched = _RESOURCE.match(path)
        resolver = self._by_prefix.get(matched[0]) if matched else None
        return (resolver or self._everywhere).resolve(path)


def prefix_of(route: Route) -> str | None:
    """Return the common prefix of all paths that the route matches, ``/v2.1/servers``; None if it is unknown."""
    text = str(route.pattern)
    if isinstance(route.pattern, RoutePattern):
        fixed, behind = text.partition("<")[::2]
        ends = fixed == text and isinstance(route, URLPattern)
    else:
        match = _FIXED.match(text)
        assert match is not None  # noqa: S101 - matches the empty text, too
        fixed, behind = match[1].replace("\\.", "."), text[match.end() :]
        if behind[:1] in {"?", "*", "{"}:  # the last character may be optional
            fixed, behind = fixed[:-1], fixed[-1:] + behind
        ends = behind.startswith(("/", "$", "\\Z", "(?:\\."))
    matched = _RESOURCE.match(fixed)
    if matched is None or matched[0].endswith("/"):
        return None
    return matched[0] if ends or len(matched[0]) < len(fixed) else None
