"""The guide's page of backup and restore keeps to the tests, checks and commands that there are."""

from __future__ import annotations

import re

import pytest
from django.core.management import get_commands

from provisioning.doctor.checks import leftovers
from provisioning.hosts.subjects import HANDLERS
from tests.support.one_machine import CHECKOUT
from tests.support.put_back import BLOCKS, GUIDE, LAST, PAGE

ROWS = re.findall(r"^\| ([^|`]+?) \| [^|]+ \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
CALLED = {"volume_copy": "backups", "floating_ip": "floating IPs", "security_group": "security groups"}
"""Kind of record on hosts → its name on the page, where that is not the plural."""
BESIDE = {"images", "snapshots", "attachments", "rules", "users", "roles", "credentials", "quotas", "jobs", "hosts"}
"""Records of which hosts hold only a part, or nothing."""


def test_the_commands_of_the_page_are_there() -> None:
    assert set(re.findall(r"manage\.py (\w+)", "".join(BLOCKS))) == {"after_restore"} <= set(get_commands())
    assert sum(LAST in block for block in BLOCKS) == 2


def test_the_page_says_what_a_restore_does_to_each_kind_of_record() -> None:
    held = {handler.kind for handler in HANDLERS}
    assert {"server", "volume", "network"} <= held
    needed = {CALLED.get(kind, f"{kind}s") for kind in held} | BESIDE
    needed |= {"disks"} if leftovers.WORDS.keys() & {"disk", "root_disk"} else set()
    named = {word for row in ROWS for word in re.split(r", | and ", row)}
    assert needed <= named


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[^`:]+)`", PAGE))))
def test_the_tests_that_the_page_names_are_there(named: str) -> None:
    assert (CHECKOUT / named).is_file()


def test_every_check_that_the_page_names_is_one_of_the_doctor() -> None:
    checks = set(re.findall(r"^\| `(\w+)`", GUIDE[GUIDE.index("## The doctor") :], re.MULTILINE))
    named = set(re.findall(r"`(\w+)` names", PAGE))
    assert {"newer_guests", "leftovers", "guests"} <= named <= checks
