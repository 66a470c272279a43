"""Every operation of the OpenAPI document gets sound, wrong and odd requests: no input makes a 500, and every refusal
is JSON in the service's own shape.

``FUZZ_EXAMPLES=200`` tries as many requests for each operation, with other ones each time when ``FUZZ_RANDOM`` is set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator

from portal.api.common.requests import Version
from portal.api.compute.dialect import MICROVERSIONS
from portal.api.openapi.operations import SHAPES
from portal.api.volume.dialect import MICROVERSIONS as VOLUME
from tests.fuzz.requests import Operation, Sent, operations, path_of, requests_for
from tests.security.conftest import World

pytestmark = [pytest.mark.deep, pytest.mark.both_databases]

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2"))
OLDEST, NEWEST = MICROVERSIONS.minimum, MICROVERSIONS.maximum
EDITIONS: tuple[tuple[str, Version], ...] = (
    ("compute", OLDEST),
    ("compute", NEWEST),
    ("identity", NEWEST),
    ("image", NEWEST),
    ("network", NEWEST),
    ("volume", VOLUME.maximum),
)
REFUSALS = {service: Draft202012Validator(shape) for service, shape in SHAPES.items()}


@pytest.fixture(autouse=True)
def _quick(settings: Any, tmp_path: Path) -> None:
    """Passwords that are wrong cost little, and images go where they are thrown away."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *settings.PASSWORD_HASHERS]
    settings.LOCKOUT_ATTEMPTS = 0
    settings.IMAGE_DIR = tmp_path


def ask(client: Client, sent: Sent) -> HttpResponse:
    """Ask, and undo what it did; what only a commit finds out is found out."""
    headers = {name: value for name, value in sent.headers.items() if name != "Content-Type"}
    address = f"{sent.path}?{sent.query}" if sent.query else sent.path
    with transaction.atomic():
        answer: HttpResponse = client.generic(
            sent.method, address, sent.body, sent.headers.get("Content-Type", "application/json"), headers=headers
        )
        if answer.status_code < 300 and sent.method != "GET" and connection.vendor == "postgresql":
            connection.check_constraints()
        transaction.set_rollback(True)
    return answer


def wrong(operation: Operation, answer: HttpResponse) -> Iterator[str]:
    """Say what is wrong with an answer."""
    status, kind = answer.status_code, answer.headers.get("Content-Type", "")
    if status >= 500 and status not in {501, 503}:
        yield f"answered {status}"
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    declared = {int(code) for code in operation.declared["responses"] if code != "default"}
    if 200 <= status < 400:
        if status not in declared:
            yield f"answered {status}, which the document does not tell"
        if content and not (kind == "application/json" or operation.path.endswith("/file")):
            yield f"answered with {kind or 'no type'}"
        if content and kind == "application/json":
            json.loads(content)
        return
    if kind != "application/json":
        yield f"refused by {status} with {kind or 'no type'}: {content[:80]!r}"
        return
    body = json.loads(content)
    shape = REFUSALS["identity" if status == 401 else operation.service]
    yield from (f"refused by {status} in no shape of ours: {error.message[:200]}" for error in shape.iter_errors(body))


def described(operation: Operation, sent: Sent, what: str) -> str:
    where = f"{sent.method} {sent.path[:300]}?{sent.query[:300]}"
    return f"{operation}: {what}\n    {where}\n    {sent.headers} {sent.body[:600]!r}"


def tried(operation: Operation, world: World, version: Version, client: Client) -> str:
    """Try an operation; return what went wrong first."""

    @settings(
        max_examples=EXAMPLES,
        derandomize="FUZZ_RANDOM" not in os.environ,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if EXAMPLES < 10 else [Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )
    @given(sent=requests_for(operation, world, version))
    def one(sent: Sent) -> None:
        problems = list(wrong(operation, ask(client, sent)))
        assert not problems, described(operation, sent, "; ".join(problems))

    try:
        one()
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize(("service", "version"), EDITIONS, ids=lambda value: str(value))
def test_no_input_makes_an_error_of_ours(world: World, service: str, version: Version) -> None:
    client = Client(raise_request_exception=False)
    result = [text for operation in operations(version, service) if (text := tried(operation, world, version, client))]
    assert not result, f"{len(result)} operations\n\n" + "\n\n".join(result)


@pytest.mark.parametrize("service", ["compute", "identity", "image", "network", "volume"])
def test_without_a_token_everything_but_the_public_is_401(world: World, service: str) -> None:
    client = Client(raise_request_exception=False)
    expected, result = {}, {}
    for operation in operations(NEWEST, service):
        if not operation.public:
            answer = client.generic(operation.method, path_of(operation, world), b"{}", "application/json")
            expected[str(operation)], result[str(operation)] = 401, answer.status_code
            assert not list(wrong(operation, answer))
    assert result == expected
    assert len(result) > 5
