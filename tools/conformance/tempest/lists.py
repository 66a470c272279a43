"""Named lists of tempest's tests, chosen by their names, attributes and ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

INTEROP = Path(__file__).with_name("interop.txt")
_ATTRIBUTES = re.compile(r"\[(.*)\]$")
_NEVER = re.compile(r"^tempest\.(api\.object_storage|scenario\.(test_object_storage|test_dashboard))")
"""Tests of services that this project does not have."""
_GUESTS = re.compile(
    r"^tempest\.((serial_tests\.)?scenario\.test_"
    r"(network_(basic|advanced|v6)|security_groups_basic|instances_with_cinder|minimum_basic)"
    r"|api\.compute\.servers\.test_server_actions\.ServerActionsV293TestJSON)"
)
"""Tests that connect to guests on a network regardless of the configuration."""


def attributes(test: str) -> set[str]:
    """Return the attributes of a test as listed by the suite: ``id-…``, ``smoke``, ``slow`` …"""
    found = _ATTRIBUTES.search(test)
    return set(found[1].split(",")) if found else set()


def _interop() -> set[str]:
    lines = (line.partition("#")[0].strip() for line in INTEROP.read_text().splitlines())
    return {f"id-{line}" for line in lines if line}


def _smoke(test: str) -> bool:
    return "smoke" in attributes(test)


def _core(test: str) -> bool:
    return test.startswith("tempest.api.") and ".admin." not in test and "slow" not in attributes(test)


def _full(test: str) -> bool:
    return "slow" not in attributes(test)


def _everything(_: str) -> bool:
    return True


def _of_guideline(test: str) -> bool:
    return bool(attributes(test) & _interop())


LISTS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "smoke": ("tests that tempest marks as smoke", _smoke),
    "core": ("actions of users: the APIs without their administrators' part and without slow tests", _core),
    "full": ("all tests of the APIs and scenarios, without slow tests", _full),
    "slow": ("the same with slow tests", _everything),
    "interop": ("the tests of the guideline for interoperability 2022.11", _of_guideline),
}
"""Name of a list → its description, and a function that returns whether a test belongs to it."""


def select(tests: Sequence[str], name: str, pattern: str = "", *, ssh: bool = False) -> list[str]:
    """Return the tests of a list, in their order, whose names match ``pattern``.

    Tests that connect to guests regardless of the configuration are included only with ``ssh``.
    """
    _, belongs = LISTS[name]
    wanted, reachable = re.compile(pattern), [test for test in tests if ssh or not _GUESTS.match(test)]
    return [test for test in reachable if not _NEVER.match(test) and belongs(test) and wanted.search(test)]
