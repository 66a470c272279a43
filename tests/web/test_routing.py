"""Routing by prefix: every path leads where Django's own search through the list leads."""

from __future__ import annotations

import re

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, URLResolver, resolve
from django.urls.resolvers import RoutePattern

from portal.api.compute import urls as compute
from portal.api.identity.urls import urlpatterns as identity
from portal.api.image.urls import urlpatterns as image
from portal.api.network.urls import urlpatterns as network
from portal.api.volume import urls as volume
from portal.common.http.routing import by_prefix, prefix_of
from tests.support.tables import each_row

SERVICES = {"compute": compute.ROUTES, "identity": identity, "image": image, "network": network}
STRICT = {"compute": "v2.1", "volume": "v3", "image": "v2"}
"""Services that find nothing at a list with a slash behind it, and a version of each."""
ID = "9a18c049-4cb0-4708-b665-c51860e60c43"


def example(pattern: object) -> str:
    """Return a path that a route may match: its text with the variable parts filled in."""
    text = str(pattern)
    for cut in ("^", "$", "\\Z", "(?:\\.json)?", "/?"):
        text = text.replace(cut, "")
    text = text.replace("\\.", ".")
    while "(?P<" in text or "<" in text:
        begin = text.index("(?P<") if "(?P<" in text else text.index("<")
        end = text.index(")", begin) if "(?P<" in text else text.index(">", begin)
        text = f"{text[:begin]}{ID}{text[end + 1 :]}"
    return text


@pytest.mark.parametrize("service", SERVICES)
def test_the_same_view_is_found_as_by_the_whole_list(service: str) -> None:
    (indexed,) = SERVICES[service]
    assert isinstance(indexed, URLResolver)
    routes = list(indexed.url_patterns)
    plain = URLResolver(RoutePattern("", is_endpoint=False), routes)
    known = [example(route.pattern) for route in routes]
    paths = {
        path
        for path in known
        for path in (path, f"{path}/", f"{path}/{ID}", f"{path}x", f"{path}.json", path.rpartition("/")[0])
    }
    assert len(known) > 20
    for path in sorted({*paths, "", "/", "//", "/v2", "/v9/nothing", "/v2.1//servers", "/%"}):
        try:
            expected = plain.resolve(path)
        except Resolver404:
            with pytest.raises(Resolver404):
                indexed.resolve(path)
            continue
        result = indexed.resolve(path)
        assert (result.func, result.args, result.kwargs) == (expected.func, expected.args, expected.kwargs), path


def test_a_page_whose_name_begins_like_a_service_is_a_page() -> None:
    assert resolve("/images/").func.__module__.startswith("portal.dashboard.")
    assert resolve("/image/v2/images").func.__module__.startswith("portal.api.image.")
    assert resolve("/image").func.__module__.startswith("portal.api.image.")
    assert resolve("/image/nothing").func.__module__.startswith("portal.api.")
    with pytest.raises(Resolver404):
        resolve("/computers")


@pytest.mark.parametrize("service", [*SERVICES, "volume"])
def test_a_slash_at_the_end_makes_no_difference(service: str) -> None:
    routes = volume.ROUTES if service == "volume" else SERVICES[service][0].url_patterns
    paths = [f"/{service}{example(route.pattern)}" for route in routes if "rest" not in str(route.pattern)]
    paths = [path for path in paths if path.removesuffix("/").count("/") > 2]
    if service in {"compute", "volume"}:
        paths += [re.sub(r"/(v[\d.]+)/", rf"/\1/{ID}/", path) for path in paths]
    nothing = resolve(f"/{service}/{STRICT.get(service, 'v3')}/nothing/at/all").func
    for path in paths:
        result, same = resolve(path), resolve(f"{path.removesuffix('/')}/")
        if service in STRICT and resolve(f"{path}/{ID}").func is not nothing:
            assert same.func is nothing, f"{path}/ lacks the id of a member"
        else:
            assert (result.func, result.kwargs) == (same.func, same.kwargs), path


@each_row(
    "method, path",
    [
        ("delete", "compute/v2.1/os-security-groups/"),
        ("delete", "compute/v2.1/images/"),
        ("get", "compute/v2.1/os-volumes/"),
        ("delete", "compute/v2.1/os-volumes/"),
        ("get", "compute/v2.1/os-simple-tenant-usage/"),
        ("get", f"compute/v2.1/{ID}/servers/"),
        ("get", "volume/v3/volumes/"),
        ("put", "volume/v3/volumes/"),
        ("delete", "volume/v3/volumes/"),
        ("get", "image/v2/images/"),
        ("delete", "image/v2/images/"),
        ("get", "image/v2/metadefs/namespaces/"),
    ],
)
def test_an_empty_id_is_not_found(method: str, path: str) -> None:
    """In a list with a slash behind it, which would else be that list, or be refused as a wrong method."""
    service = path.partition("/")[0]
    assert resolve(f"/{path}").func is resolve(f"/{service}/{STRICT[service]}/nothing/at/all").func, method


@pytest.mark.parametrize("service", SERVICES)
def test_most_routes_are_tried_for_their_prefix_only(service: str) -> None:
    (indexed,) = SERVICES[service]
    assert isinstance(indexed, URLResolver)
    everywhere = [route for route in indexed.url_patterns if prefix_of(route) is None]
    assert len(everywhere) <= 8


def test_a_route_whose_resource_is_not_fixed_is_tried_for_every_path() -> None:
    from django.urls import path, re_path  # noqa: PLC0415 - makes routes of this test

    def view(request: HttpRequest, **given: str) -> HttpResponse:
        return HttpResponse()

    routes = [
        path("/v1/<str:what>", view, name="variable"),
        path("/v1/things", view, name="hidden"),
        re_path("^/v1/things?$", view, name="either"),
        path("/v1/things/<str:name>", view, name="below"),
    ]
    assert [prefix_of(route) for route in routes] == [None, "/v1/things", None, "/v1/things"]
    (indexed,) = by_prefix(routes)
    assert indexed.resolve("/v1/things").url_name == "variable"  # type: ignore[union-attr]
    assert indexed.resolve("/v1/things/a").url_name == "below"  # type: ignore[union-attr]
    assert indexed.resolve("/v1/other").url_name == "variable"  # type: ignore[union-attr]
