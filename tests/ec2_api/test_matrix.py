"""Every action for everybody: who is let in, and who learns nothing.  The table is ``matrix.txt``; an action without a
row there fails, so that nobody forgets to say who may use a new one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from portal.api.ec2 import urls
from portal.api.ec2.actions.every import ACTIONS
from portal.api.ec2.protocol import model
from tests.ec2_api.things import PERSONS, Things, guesses, make_things
from tests.security.conftest import SECRET, World, made_world, world
from tests.support.cast import People
from tests.support.ec2 import OK, Answer, ask, pairs_of
from tests.support.landing import in_turn
from tests.support.standing import standing

__all__ = ["made_world", "urls", "world"]
pytestmark = pytest.mark.usefixtures("world")  # a host that answers
OUTSIDE = ("barred", "revoked", "roleless", "other", "operator")
"""Who must not learn anything of alice's project."""
ALIKE = (("reader", "narrow"), ("member", "wide"), ("barred", "revoked", "roleless"), ("other", "operator"))
"""Persons of whom one asks at landing, the member in any case."""
WORDS = {"auth": "AuthFailure", "denied": "UnauthorizedOperation"}
"""What the two commonest codes are called in the table."""
SHORT = {code: word for word, code in WORDS.items()}


@dataclass(frozen=True)
class Row:
    """An action, the code that each person gets, and with which arguments."""

    action: str
    codes: dict[str, str]
    arguments: str

    def line(self, codes: Mapping[str, str]) -> str:
        """This row as the file has it, with these codes."""
        words = " ".join(f"{SHORT.get(codes[person], codes[person]):<6}" for person in PERSONS)
        return f"{self.action:<36} {words}  {self.arguments}".rstrip()


def table() -> list[Row]:
    lines = (Path(__file__).parent / "matrix.txt").read_text().splitlines()
    return [_row(line) for line in lines if line and not line.startswith("#")]


def _row(line: str) -> Row:
    action, *rest = line.split(None, 1 + len(PERSONS))
    codes = [WORDS.get(word, word) for word in rest[: len(PERSONS)]]
    return Row(action, dict(zip(PERSONS, codes, strict=True)), "".join(rest[len(PERSONS) :]))


ROWS = table()


@pytest.fixture(autouse=True)
def _quick(settings: Settings) -> None:
    """Switch rate limits off."""
    settings.RATE_LIMITS = {}


@pytest.fixture
@standing
def things(people: People, made_world: World) -> Things:
    return make_things(people, made_world)


def _response(client: Client, things: Things, row: Row, person: str, **also: Any) -> Answer:
    """Return the response to a request, and roll its changes back."""
    given = json.loads(things.filled(row.arguments)) if row.arguments else {}
    with transaction.atomic():
        answer = ask(client, things.keys[person], row.action, pairs_of(row.action, given | also))
        transaction.set_rollback(True)
    return answer


def _differences(row: Row, person: str, answer: Answer, things: Things, world: World) -> Iterator[str]:
    """Yield resources of alice's project that are in the response, but not in the request."""
    arguments = things.filled(row.arguments)
    open_to_all = {things.ids["public-image"], things.ids["outside"], things.ids["public-subnet"]}
    open_to_all |= {things.ids["zone"], things.ids["type"], things.ids["group-name"]}
    hidden = {SECRET, *things.ids.values(), *(world.ids[name] for name in ("server", "image", "port"))} - open_to_all
    yield from (
        f"{row.action}: {person} is told {word}" for word in hidden if word in answer.text and word not in arguments
    )


@pytest.mark.slow
def test_every_action_has_its_rows_and_every_row_an_action(things: Things) -> None:
    """One row for each action, and one more for what shows both all and those of some ids."""
    rows, client, wrong = Counter(row.action for row in ROWS), Client(), []
    for name in sorted(ACTIONS):
        guessed = guesses(ACTIONS[name])
        if rows[name] >= len(guessed):
            continue
        for arguments in guessed:
            row = Row(name, {}, json.dumps(arguments).removeprefix("{}"))
            try:
                result = {person: _response(client, things, row, person).code for person in PERSONS}
                wrong.append(row.line(result))
            except KeyError as error:
                unknown = f"{row.line(dict.fromkeys(PERSONS, '?'))}  (tests/ec2_api/things.py has nothing for {error})"
                wrong.append(unknown)
    text = "no row in tests/ec2_api/matrix.txt; found with guessed arguments, look whether it is as it should be:"
    assert not wrong, f"{text}\n" + "\n".join(wrong)
    assert not rows.keys() - ACTIONS.keys(), "rows of no action"


def _persons(row: Row) -> set[str]:
    """The persons who ask for a row at landing."""
    power = ("reader", "member")
    asking = in_turn(f"{row.action} {row.arguments}", row.codes, ALIKE, by_power=power, outside=OUTSIDE)
    return {"member", *asking}


@pytest.mark.slow
@pytest.mark.parametrize("everybody", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["in turn", "everybody"])
def test_everybody_gets_what_the_table_says(things: Things, world: World, everybody: bool) -> None:
    client, wrong, shown = Client(), [], []
    for row in ROWS:
        persons = PERSONS if everybody else _persons(row)
        answers = {person: _response(client, things, row, person) for person in persons}
        result = {person: answer.code for person, answer in answers.items()}
        differs = ", ".join(person for person in result if result[person] != row.codes[person])
        if differs:
            wrong.append(f"the table is wrong about {differs}; found:\n{row.line(row.codes | result)}")
        for person in answers.keys() & set(OUTSIDE):
            wrong += _differences(row, person, answers[person], things, world)
        shown += _differences(row, "member", answers["member"], things, world)
    assert not wrong, "\n".join(wrong)
    assert len(shown) > 9, "the things of the project are not even shown to its member"


@pytest.mark.slow
def test_who_may_is_notified_by_a_dry_run_that_does_nothing(things: Things) -> None:
    client, wrong = Client(), []
    for name in ACTIONS.keys() & {row.action for row in ROWS if _has_dry_run(row.action)}:
        rows = [row for row in ROWS if row.action == name]
        for person in ("reader", "member"):
            with CaptureQueriesContext(connection) as queries:
                code = _response(client, things, rows[0], person, DryRun=True).code
            denied = all(row.codes[person] == WORDS["denied"] for row in rows)
            if code != (WORDS["denied"] if denied else "DryRunOperation"):
                wrong.append(f"{name}: {person} gets {code}")
            wrong += [query["sql"] for query in queries if query["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]
    assert not wrong


def _has_dry_run(name: str) -> bool:
    shape = model.operation(name).input_shape
    return shape is not None and "DryRun" in model.members_of(shape)


@pytest.mark.slow
def test_every_row_does_something_for_the_member() -> None:
    """What nobody may do, or what does not go, says nothing about who else may."""
    assert {row.action for row in ROWS if row.codes["member"] != OK} == REFUSED_TO_ALL


REFUSED_TO_ALL: set[str] = set()
"""Actions for which the world would have to be another."""
