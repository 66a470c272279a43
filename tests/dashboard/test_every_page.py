"""What holds for every page: the strict policy for content, frames, errors in the design."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud

PAGES = (
    "/", "/instances/", "/instances/launch/", "/launch-templates/", "/snippets/", "/snippets/create/",
    "/images/", "/images/catalogue/", "/images/upload/",
    "/flavors/", "/flavors/create/",
    "/server-groups/", "/server-groups/create/",
    "/key-pairs/", "/key-pairs/create/", "/settings/", "/settings/password/", "/settings/sessions/", "/api-access/",
    "/api-access/ec2/", "/api/", "/application-credentials/", "/application-credentials/create/", "/nothing-here/",
    "/project/", "/projects/", "/projects/create/", "/quotas/", "/users/", "/users/create/", "/groups/",
    "/groups/create/", "/roles/", "/roles/create/", "/domains/", "/domains/create/", "/network-map/",
    "/security-groups/", "/security-groups/create/", "/floating-ips/", "/floating-ips/allocate/", "/routers/",
    "/routers/create/", "/networks/", "/networks/create/", "/volumes/", "/volumes/create/", "/volumes/accept/",
    "/volume-snapshots/", "/volume-backups/", "/domains/default/", "/system/", "/batches/",
    "/search/", "/search/?q=a", "/starred/",
    "/cloud/", "/hosts/", "/pools/", "/migrations/", "/usage/",
)  # fmt: skip
ADMIN_PAGES = ("/admin/", "/admin/hosts/host/", "/admin/hosts/host/join/", "/admin/identity/endpoint/add/")


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person) -> Client:
    return signed_in(operator)


@pytest.mark.parametrize("path", [*PAGES, *ADMIN_PAGES, "/auth/login/"])
def test_nothing_inline_and_nothing_from_elsewhere(at_operator: Client, cloud: Cloud, path: str) -> None:
    if path == "/auth/login/":
        at_operator.post("/auth/logout/")
    answer = at_operator.get(path)
    page = answer.content.decode()
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"<[^>]+\sstyle=", page) == []
    assert re.findall(r"<[^>]+\son[a-z]+=", page) == []
    assert re.findall(r"<style|javascript:", page) == []
    for script in re.findall(r"<script[^>]*>", page):
        assert "src=" in script or 'type="application/json"' in script
    for address in re.findall(r'(?:src|href|action)="([^"]*)"', page):
        assert re.match(r"(/(?!/)|#|\?|$)", address), address


@pytest.mark.parametrize("path", PAGES)
def test_every_page_can_be_used_without_a_mouse(at_operator: Client, cloud: Cloud, path: str) -> None:
    page = at_operator.get(path).content.decode()
    assert '<html lang="en"' in page
    assert len(re.findall(r"<h1[ >]", page)) == 1
    assert len(re.findall(r"<main[ >]", page)) == 1
    if path != "/nothing-here/":
        assert 'href="#main"' in page
        assert 'aria-live="polite"' in page
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert sorted(ids) == sorted(set(ids))
    for field in re.findall(r"<(?:input|select|textarea)[^>]*>", page):
        if 'type="hidden"' in field or 'type="radio"' in field or 'type="checkbox"' in field or "aria-label" in field:
            continue
        name = re.search(r'\sid="([^"]+)"', field)
        assert name, field
        assert f'for="{name.group(1)}"' in page, field
    for button in re.findall(r"<button[^>]*>\s*<i [^>]*></i>\s*</button>", page):
        assert "aria-label" in button


def test_the_page_that_is_not_there_is_in_the_design(at_alice: Client) -> None:
    answer = at_alice.get("/nothing-here/")
    assert answer.status_code == 404
    page = answer.content.decode()
    assert "This page does not exist" in page
    assert answer.headers["X-Openstack-Request-Id"] in page


def test_a_mistake_of_ours_shows_the_request_and_no_insides(at_alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret insides")

    monkeypatch.setattr("portal.dashboard.flavors.selectors.visible_flavors", broken)
    answer = at_alice.get("/flavors/")
    assert answer.status_code == 500
    page = answer.content.decode()
    assert "Something broke" in page
    assert answer.headers["X-Openstack-Request-Id"] in page
    assert "secret insides" not in page


def test_what_policy_forbids_is_explained(signed_in: SignedIn, bob: Person) -> None:
    answer = signed_in(bob).get("/instances/launch/")
    assert answer.status_code == 403
    assert "Ask an administrator of" in answer.content.decode()


def test_operators_find_their_pages(at_operator: Client, at_alice: Client) -> None:
    assert 'href="/admin/"' in at_operator.get("/").content.decode()
    assert 'href="/admin/"' not in at_alice.get("/").content.decode()
