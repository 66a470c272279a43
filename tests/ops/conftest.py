"""The admin in a browser of the operator."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.support.cast import Person, sign_in_browser
from tests.support.clouds import Cloud
from tests.support.standing import standing


@pytest.fixture(autouse=True)
def _plain_static(plain_static: None) -> None:
    """Pages need no collectstatic here."""


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("host-1")
    return cloud


@pytest.fixture
def admin(operator: Person) -> Client:
    """A browser in which the operator has signed in."""
    client = Client(raise_request_exception=False)
    sign_in_browser(client, operator)
    return client
