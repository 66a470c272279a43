"""The style guide: only with DEBUG, and as clean as the other pages."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from tests.dashboard import test_every_page as every_page
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People
from tests.support.clouds import Cloud

PATHS = ("/styleguide/", "/styleguide/question/", "/styleguide/danger/", "/styleguide/form/")
COMPONENTS = (
    *("btn-primary", "btn-danger", "status ok", "status bad", "tag", "notice warn", "field-error", "segments", "meter"),
    *("code-box", "graph", "timeline", "page-tabs", "rows", "empty", "copied"),
)
"""Classes of the style sheet that the page has an example of."""


@pytest.fixture
def at_operator(signed_in: SignedIn, people: People) -> Client:
    return signed_in(people.operator)


@pytest.mark.parametrize("path", PATHS)
def test_without_debug_it_does_not_exist(at_operator: Client, path: str) -> None:
    assert at_operator.get(path).status_code == 404
    assert at_operator.post(path).status_code == 404


@pytest.mark.parametrize("path", PATHS)
def test_it_keeps_the_rules_of_every_page(at_operator: Client, cloud: Cloud, settings: Settings, path: str) -> None:
    settings.DEBUG = True
    assert at_operator.get(path).status_code == 200
    every_page.test_nothing_inline_and_nothing_from_elsewhere(at_operator, cloud, path)
    every_page.test_every_page_can_be_used_without_a_mouse(at_operator, cloud, path)


def test_it_has_every_component(at_operator: Client, cloud: Cloud, settings: Settings) -> None:
    settings.DEBUG = True
    page = at_operator.get("/styleguide/").content.decode()
    assert [each for each in COMPONENTS if f'"{each}' not in page and f" {each}" not in page] == []
    for level in ("success", "error"):
        shown = at_operator.post("/styleguide/", {"level": level}, follow=True).content.decode()
        assert f"toast-note {level}" in shown
