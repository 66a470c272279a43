"""Every action of EC2 gets thousands of requests that its model makes: none is a 500, each answer is EC2's XML with one
of its codes, what only shows writes nothing but ids, and what is refused leaves nothing behind.

``FUZZ_EXAMPLES=200`` tries as many requests for each action, other ones each time when ``FUZZ_RANDOM`` is set.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from botocore.parsers import EC2QueryParser
from django.db import connection, transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from portal.api.ec2 import urls
from portal.api.ec2.actions.every import ACTIONS
from portal.api.ec2.frame import Action, Call, Ec2Error, Handler, names
from portal.api.ec2.protocol import faults, model
from provisioning.ec2.models import Ec2Tag
from tests.ec2_api.test_matrix import table
from tests.ec2_api.things import Things
from tests.fuzz.ec2_requests import Dice, requests_for
from tests.support.ec2 import OK, Answer, ask, body_of, send, signed

__all__ = ["urls"]
pytestmark = [pytest.mark.deep, pytest.mark.both_databases]

QUICK = 3
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))
CODES = {
    word
    for line in (Path(__file__).parent / "ec2_codes.txt").read_text().splitlines()
    if not line.startswith("#")
    for word in line.split()
}
IDS, SIGNATURES = "ec2_ec2id", "ec2_spentsignature"
"""Tables that a request may write to whatever comes of it."""
SHARES = 4
"""The actions are shared out among so many tests."""
_WRITES = re.compile(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM|REPLACE INTO)\s+\"(\w+)\"")
_NAMESPACE = "{http://ec2.amazonaws.com/doc/2016-11-15/}"


@pytest.fixture(autouse=True)
def _quick(settings: Any) -> None:
    """Nobody asks too often."""
    settings.RATE_LIMITS = {}


class Records:
    """What all tables hold before the first request; each is undone, so that they hold it before every other one."""

    def __init__(self) -> None:
        self._before = {name: _content(name) for name in connection.introspection.table_names()}
        self.written: set[str] = set()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Note in ``written`` the tables that are written to meanwhile."""
        self.written = set()

        def noted(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            match = _WRITES.match(sql)
            if match:
                self.written.add(match[1])
            return execute(sql, *rest)

        with connection.execute_wrapper(noted):
            yield

    def changed(self) -> set[str]:
        """Return the tables that were written to and hold something else now."""
        return {name for name in self.written if _content(name) != self._before[name]}


def _content(table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - a table of ours
        rows = sorted(map(repr, cursor.fetchall()))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


@dataclass
class Asked:
    """One request that was made and undone, and what it wrote."""

    answer: Answer
    written: set[str]
    left: set[str]


def traced(records: Records, make: Callable[[], Answer]) -> Asked:
    with transaction.atomic():
        with records.watched():
            answer = make()
        if answer.status == 200 and connection.vendor == "postgresql":
            connection.check_constraints()
        left = set() if answer.status == 200 else records.changed() - {IDS, SIGNATURES}
        transaction.set_rollback(True)
    return Asked(answer, records.written, left)


def wrong(action: Action | None, found: Asked) -> Iterator[str]:
    """Say what is wrong with an answer."""
    answer = found.answer
    if answer.status == 500:
        yield "answered 500"
    if answer.headers.get("Content-Type") != "text/xml;charset=UTF-8":
        yield f"answered with {answer.headers.get('Content-Type')}"
    if answer.status != 200:
        if answer.root.tag != "Response" or answer.root.findtext("RequestID") is None:
            yield f"refused with <{answer.root.tag}>"
        if answer.code not in CODES:
            yield f"refused with {answer.code}, which tests/fuzz/ec2_codes.txt does not have"
        yield from (f"refused, and {name} is changed" for name in found.left)
    elif action is None:
        yield "answered what nobody has signed"
    else:
        yield from _not_parsed(action, answer)
    if action is not None and not action.changes:
        yield from (f"{action.name} writes {name}" for name in found.written - {IDS})


def _not_parsed(action: Action, answer: Answer) -> Iterator[str]:
    if answer.root.tag != f"{_NAMESPACE}{action.name}Response":
        yield f"answered with <{answer.root.tag}>"
    shape = model.operation(action.name).output_shape
    EC2QueryParser().parse({"body": answer.content, "headers": {}, "status_code": 200}, shape)


def bounded(examples: int) -> Any:
    return settings(
        max_examples=examples,
        derandomize="FUZZ_RANDOM" not in os.environ,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if examples < 10 else [Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )


def tried(action: Action, things: Things, records: Records, caplog: Any, examples: int) -> str:
    """Try an action; return what went wrong first."""
    client, make = Client(), requests_for(action, [row for row in table() if row.action == action.name], things)

    @bounded(examples)
    @given(dice=st.randoms(use_true_random=True))
    def one(dice: Dice) -> None:
        sent = make(dice)
        caplog.clear()
        result = traced(records, lambda: ask(client, things.keys[sent.person], sent.action, sent.pairs))
        problems = [*wrong(action, result), *(record.getMessage() for record in caplog.records)]
        assert not problems, f"{'; '.join(problems)}\n    {sent}\n    {result.answer.text[:400]}"

    try:
        one()
    except AssertionError as error:
        return f"{action.name}: {error}"
    return ""


def _tried_all(chosen: Sequence[Action], things: Things, caplog: Any, examples: int) -> None:
    caplog.set_level(logging.ERROR)
    records = Records()
    result = [text for action in chosen if (text := tried(action, things, records, caplog, examples))]
    assert not result, f"{len(result)} actions\n\n" + "\n\n".join(result)


def test_a_few_requests_for_every_action(things: Things, caplog: Any) -> None:
    _tried_all([ACTIONS[name] for name in sorted(ACTIONS)], things, caplog, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_many_requests_for_every_action(things: Things, caplog: Any, share: int) -> None:
    _tried_all([ACTIONS[name] for name in sorted(ACTIONS)[share::SHARES]], things, caplog, EXAMPLES)


def _raises(call: Call) -> dict[str, Any]:
    return {"Regions": [][1]}


def _writes(call: Call) -> dict[str, Any]:
    Ec2Tag.objects.create(project_id=call.project_id, kind="i", resource_id=uuid.uuid4(), key="a")
    return {"Regions": []}


def _refuses(call: Call) -> dict[str, Any]:
    raise Ec2Error("NoSuchCode", "No.")


@pytest.mark.parametrize(
    ("handler", "text"), [(_raises, "answered 500"), (_writes, "writes ec2_ec2tag"), (_refuses, "NoSuchCode")]
)
def test_what_is_wrong_is_seen(things: Things, caplog: Any, monkeypatch: Any, handler: Handler, text: str) -> None:
    bad = replace(ACTIONS["DescribeRegions"], handler=handler)
    monkeypatch.setitem(ACTIONS, bad.name, bad)
    assert text in tried(bad, things, Records(), caplog, 9 * QUICK)


HEADERS = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token", "Accept", "X-Amz-Target", "X-Request-Id")
PIECES = (
    *("Action=DescribeRegions", "Version=2016-11-15", "AWSAccessKeyId=x", "Signature=x", "SignatureVersion=2"),
    *("SignatureMethod=HmacSHA256", "Timestamp=2026-01-01T00:00:00Z", "Expires=9999-12-31T23:59:59-14:00", "%", "%00"),
    *(
        "X-Amz-Signature=x",
        "X-Amz-Credential=a/b/c/d/e",
        "X-Amz-Algorithm=AWS4-HMAC-SHA256",
        "X-Amz-Expires=9e9",
        "=",
        "&&",
    ),
    *("X-Amz-Date=20260101T000000Z", "X-Amz-SignedHeaders=host;;", "%ff%fe", "a" * 5000, "Action=" + "A" * 3000),
)
VALUES = (
    *(
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, SignedHeaders=host, Signature=" + "0" * 64,
        "Basic YTpi",
    ),
    *(
        "AWS4-HMAC-SHA256 Credential=/,SignedHeaders=,Signature=",
        "\xff\xfe",
        "20260101T000000Z",
        "99999999T999999Z",
        "",
    ),
    *("x" * 5000, "testserver", "evil.example", "-1"),
)


@st.composite
def garbage(draw: Any) -> tuple[bytes, dict[str, str]]:
    """A body and headers that nobody has signed, or not these."""
    pieces = draw(st.lists(st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=30)), max_size=6))
    named = draw(st.dictionaries(st.sampled_from(HEADERS), st.sampled_from(VALUES), max_size=4))
    return b"&".join(pieces), named


def test_what_nobody_signed_is_refused_and_writes_nothing(things: Things, caplog: Any) -> None:
    """Also what was signed and has been changed since, and what was signed with another's secret."""
    caplog.set_level(logging.ERROR)
    records, client = Records(), Client()
    sound = body_of("DescribeInstances", [])
    genuine = signed(things.keys["member"], sound)

    @bounded(150)
    @given(made=garbage(), how=st.sampled_from(("raw", "changed body", "changed headers", "other path")))
    def one(made: tuple[bytes, dict[str, str]], how: str) -> None:
        caplog.clear()
        body, headers = made
        if how == "changed body":
            body, headers = sound.encode() + b"&" + body + b"x", genuine
        elif how == "changed headers":
            body, headers = (
                sound.encode(),
                genuine | headers | {"X-Amz-Date": headers.get("X-Amz-Date", "20260101T000000Z")},
            )
        path = "/ec2/services/Cloud" if how == "other path" else "/ec2/"
        result = traced(records, lambda: send(client, body, headers, path))
        problems = [*wrong(None, result), *(record.getMessage() for record in caplog.records)]
        assert not problems, (
            f"{'; '.join(problems)}\n    {how} {body[:300]!r} {headers}\n    {result.answer.text[:400]}"
        )
        assert result.written == set()

    one()


def test_every_code_of_the_registry_is_one_of_ec2() -> None:
    known = {code for each in ACTIONS.values() for code in (each.missing, each.conflict, *each.over_quota.values())}
    known |= {code for kind in names.KINDS for code in (kind.malformed, kind.missing)} | set(faults.OVER_QUOTA.values())
    assert known <= CODES, "not in tests/fuzz/ec2_codes.txt"
    assert OK not in CODES
