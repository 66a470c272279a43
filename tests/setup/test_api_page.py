"""docs/api.md and the routes say the same: every call on the page is answered, and every route is on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.urls import URLPattern, URLResolver, resolve

from portal.common.routing import route_of_service

SERVICES = ("identity", "compute", "image", "network")
VERSIONS = {"identity": "/identity/v3", "compute": "/compute/v2.1", "image": "/image/v2", "network": "/network/v2.0"}


def calls(page: str, service: str) -> Iterator[tuple[str, str]]:
    """Method and full path of every call in the service's table."""
    prefix = VERSIONS[service]
    section = page.split(f", `{prefix}`\n", 1)[1].split("\n## ", 1)[0]
    for cell in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE):
        methods: list[str] = []
        fresh = True
        for words in re.findall(r"`([^`]+)`", cell):
            method, _, path = words.rpartition(" ")
            if not words.startswith("/"):
                methods = [*([] if fresh else methods), method or words]
                fresh = False
            if path.startswith("/"):
                fresh = True
                full = path if re.match(rf"/{service}(/|$)", path) else prefix + path
                yield from ((name, re.sub(r"\{\w+\}", "x", full)) for name in methods)


def routes(resolver: URLResolver, above: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in resolver.url_patterns:
        where = above + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern, where)
        else:
            yield where, pattern


def view_of(callback: object) -> type:
    found = getattr(callback, "cls", None) or getattr(callback, "view_class", None)
    assert isinstance(found, type)
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_every_documented_call_is_answered(checkout: Path, service: str) -> None:
    page = (checkout / "docs/api.md").read_text()
    found = list(calls(page, service))
    assert len(found) > 5
    for method, path in found:
        view = view_of(resolve(path).func)
        assert view.__name__ != "NoSuchResource", f"{method} {path}"
        handler = "get" if method == "HEAD" else method.lower()
        assert hasattr(view, handler), f"{method} {path} is not answered by {view.__name__}"


@pytest.mark.parametrize("service", SERVICES)
def test_every_route_is_documented(checkout: Path, service: str) -> None:
    page = (checkout / "docs/api.md").read_text()
    documented = {view_of(resolve(path).func) for _, path in calls(page, service)}
    served = {view_of(pattern.callback): where for where, pattern in routes(route_of_service(service))}
    missing = {where for view, where in served.items() if view not in documented and view.__name__ != "NoSuchResource"}
    assert missing == set()
