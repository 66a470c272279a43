"""The guide's page of backup and restore keeps to the tests, checks and commands that there are."""

from __future__ import annotations

import re

import pytest
from django.core.management import get_commands

from tests.support.one_machine import CHECKOUT

GUIDE = (CHECKOUT / "docs/operator-guide.md").read_text()
PAGE = GUIDE[GUIDE.index("\n## Backup and restore") : GUIDE.index("\n## Upgrading")]


def test_the_commands_of_the_page_are_there() -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert set(re.findall(r"manage\.py (\w+)", block)) == {"after_restore"} <= set(get_commands())


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[^`:]+)`", PAGE))))
def test_the_tests_that_the_page_names_are_there(named: str) -> None:
    assert (CHECKOUT / named).is_file()


def test_every_check_that_the_page_names_is_one_of_the_doctor() -> None:
    checks = set(re.findall(r"^\| `(\w+)`", GUIDE[GUIDE.index("## The doctor") :], re.MULTILINE))
    named = set(re.findall(r"`(\w+)` names", PAGE))
    assert {"newer_guests", "leftovers", "guests"} <= named <= checks
