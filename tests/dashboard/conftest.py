"""The shared cast in front of the pages, and a cloud with one host played by a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.support.cast import Person, sign_in_browser
from tests.support.clouds import Cloud

SignedIn = Callable[[Person], Client]


def offered(page: Any, field: str) -> list[str]:
    """Return the labels of what a page's form offers in a field."""
    return [str(label) for _, label in page.context["form"].fields[field].widget.choices]


def ticked(page: Any, field: str) -> list[str]:
    """Return what is chosen in a field of a page's form."""
    found: list[str] = page.context["form"][field].value()
    return found


@pytest.fixture(autouse=True)
def _plain_static(plain_static: None) -> None:
    """Pages need no collectstatic here."""


@pytest.fixture
def cloud(db: None) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("host-1")
    return cloud


@pytest.fixture
def signed_in() -> SignedIn:
    """``signed_in(alice).get("/")``: a browser in which this person has signed in."""

    def make(person: Person) -> Client:
        client = Client(raise_request_exception=False)
        sign_in_browser(client, person)
        return client

    return make


@pytest.fixture
def at_alice(signed_in: SignedIn, alice: Person) -> Client:
    return signed_in(alice)
