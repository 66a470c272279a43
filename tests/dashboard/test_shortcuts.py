"""Keyboard shortcuts are unique, so that each opens one page."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

import pytest

from portal.dashboard.frame.navigation import CLOUD, ENTRIES, EVERYWHERE
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person

KEYS = re.compile(r'data-keys="([^"]*)"')


def repeated(keys: list[str]) -> list[str]:
    return [each for each, number in Counter(keys).items() if number > 1]


@pytest.mark.parametrize("scope", EVERYWHERE)
def test_no_two_entries_of_a_scope_have_one_shortcut(scope: str) -> None:
    assert not repeated([entry.keys for entry in (*CLOUD, *ENTRIES) if entry.keys and scope in entry.scopes])


def test_no_two_elements_of_a_page_have_one_shortcut(signed_in: SignedIn, operator: Person) -> None:
    page = signed_in(operator).get("/instances/").content.decode()
    result = [unescape(each) for each in KEYS.findall(page)]
    assert {entry.keys for entry in CLOUD} < set(result)
    assert all(result)
    assert not repeated(result)
    for each in (key for key in result if key.startswith("g-")):
        assert len(each) == len("g-x"), "page.js reads one key after the prefix"
