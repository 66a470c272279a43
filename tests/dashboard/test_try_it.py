"""The page on which the APIs are tried, and the token that its script gets."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from portal.dashboard.api_access.views import LIFETIME
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person


@pytest.fixture
def at_alice(signed_in: SignedIn, alice: Person) -> Client:
    return signed_in(alice)


def test_the_page_is_found_and_loads_only_files_of_ours(at_alice: Client) -> None:
    assert 'href="/api/"' in at_alice.get("/api-access/").content.decode()
    answer = at_alice.get("/api/")
    page = answer.content.decode()
    assert "swagger-ui-bundle" in page
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


def test_the_token_is_for_the_session_s_project_and_ends_soon(at_alice: Client, alice: Person) -> None:
    answer = at_alice.post("/api/token/")
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    end = parse_datetime(body["expires_at"])
    assert end is not None
    assert timedelta(0) < end - timezone.now() <= LIFETIME
    subject = {"X-Auth-Token": body["token"], "X-Subject-Token": body["token"]}
    token = Client().get("/identity/v3/auth/tokens", headers=subject).json()["token"]
    assert token["project"]["id"] == alice.project_id.hex
    assert token["user"]["id"] == alice.user_id.hex


def test_the_token_ends_with_the_session(at_alice: Client) -> None:
    headers = {"X-Auth-Token": at_alice.post("/api/token/").json()["token"]}
    assert Client().get("/compute/v2.1/servers", headers=headers).status_code == 200
    at_alice.post("/auth/logout/")
    assert Client().get("/compute/v2.1/servers", headers=headers).status_code == 401


def test_nobody_gets_none(client: Client, db: None) -> None:
    answer = client.post("/api/token/")
    assert answer.status_code == 302
    assert b"token" not in answer.content
    assert client.get("/api/token/").status_code != 200
