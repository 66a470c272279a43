"""Addresses in answers follow the request's host where the operator set none, and no host that is not allowed."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tests.identity.bodies import TOKENS, by_password
from tests.identity.grants.conftest import V3
from tests.support.cast import People, sign_in_browser
from tests.support.tables import each_row

HOST = "cloud.example:8443"
VERSIONS = ("/identity", "/identity/v3", "/identity/v2.0", "/compute", "/compute/v2.1", "/image", "/network", "/volume")


@pytest.fixture(autouse=True)
def _unset(settings: Settings) -> None:
    settings.PUBLIC_URL = ""
    settings.ALLOWED_HOSTS = ["cloud.example", "[::1]"]


def client(people: People, host: str = HOST, **more: Any) -> Client:
    return Client(headers={"host": host, "X-Auth-Token": people.operator.token, **more})


def addresses(found: Any) -> list[str]:
    """Every text in an answer that is an address."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        return [each for one in found for each in addresses(one)]
    return [found] if isinstance(found, str) and "://" in found else []


@each_row("path", VERSIONS)
def test_version_documents(people: People, path: str) -> None:
    result = [each for each in addresses(client(people).get(path).json()) if "docs.openstack.org" not in each]
    assert result
    assert all(each.startswith(f"http://{HOST}/") for each in result)


@pytest.mark.parametrize("host", [HOST, "cloud.example", "[::1]:8000"])
def test_catalogs_links_and_places(people: People, host: str) -> None:
    at = client(people, host)
    answer = at.post(TOKENS, by_password(people.alice), content_type="application/json")
    for catalog in (answer.json()["token"]["catalog"], at.get(f"{V3}/auth/catalog").json()["catalog"]):
        urls = [endpoint["url"] for entry in catalog for endpoint in entry["endpoints"]]
        assert len(urls) == 21
        assert all(url.startswith(f"http://{host}/") for url in urls)
    for path in (
        f"{V3}/projects?limit=1",
        "/compute/v2.1/flavors?limit=1",
        f"{V3}/regions",
        "/compute/v2.1/os-aggregates",
    ):
        assert all(each.startswith(f"http://{host}/") for each in addresses(at.get(path).json())), path
    tag = at.put(f"{V3}/projects/{people.alice.project_id.hex}/tags/blue")
    assert tag.headers["Location"].startswith(f"http://{host}{V3}/projects/")


def test_the_scheme_is_that_of_the_request(people: People) -> None:
    body = client(people).get("/identity", secure=True).json()
    assert addresses(body)[0].startswith(f"https://{HOST}/identity")


@pytest.mark.usefixtures("plain_static")
def test_a_host_that_is_not_allowed_is_refused_and_not_repeated(people: People) -> None:
    for path in ("/identity", f"{V3}/auth/catalog", "/compute/v2.1/flavors", "/"):
        answer = client(people, "evil.example").get(path)
        assert answer.status_code == 400
        assert b"evil.example" not in answer.content


def test_what_proxies_say_of_the_host_is_not_believed(people: People) -> None:
    headers = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Forwarded": "host=evil.example"}
    answer = client(people, **headers).get(f"{V3}/auth/catalog")
    assert f"http://{HOST}/" in answer.content.decode()
    assert "evil.example" not in answer.content.decode()


def test_the_operator_s_address_goes_before(people: People, settings: Settings) -> None:
    settings.PUBLIC_URL = "https://set.example"
    urls = addresses(client(people).get(f"{V3}/auth/catalog").json()["catalog"])
    assert all(url.startswith("https://set.example/") for url in urls)


@pytest.mark.usefixtures("plain_static")
@pytest.mark.parametrize("path", ["/", "/api-access/", "/api-access/ec2/", "/admin/hosts/host/join/"])
def test_files_and_commands_of_the_pages(people: People, path: str) -> None:
    browser = Client(headers={"host": HOST})
    sign_in_browser(browser, people.operator)
    typed = {"host_name": "h9", "lifetime": "3600"}
    answer = browser.post(path, typed) if path.startswith("/admin/") else browser.get(path)
    assert answer.status_code == 200
    assert f"http://{HOST}" in answer.content.decode()
    assert "127.0.0.1:8000" not in answer.content.decode()
