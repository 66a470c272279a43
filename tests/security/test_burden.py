"""What a request costs: strangers and members must not be able to keep the cloud busy with a few bytes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.support.cast import Api, People

TOKENS = "/identity/v3/auth/tokens"
HEAVY: dict[str, Any] = {
    "many wrong items": {"auth": {"identity": {"methods": [1] * 300_000}}},
    "many good items": {"auth": {"identity": {"methods": ["a"] * 200_000}}},
    "many unknown fields": {"auth": {"identity": {"methods": ["token"]}, **{f"k{n}": 1 for n in range(60_000)}}},
    "many levels": {"auth": [[[[[]] * 200_000]]]},
}
LONGEST = 0.5
"""Seconds of a processor for one request that is refused; the worst took 4.5."""


def processor_time(api: Api, method: str, path: str, body: Any) -> tuple[int, float]:
    """The status, and what it costs: the least of three, because neighbours on the processor only add to it."""
    text, spent = json.dumps(body), []
    for _ in range(3):
        before = time.thread_time()
        answer = api.client.generic(method, path, text, "application/json", headers=api.headers)
        spent.append(time.thread_time() - before)
    return answer.status_code, min(spent)


@pytest.mark.parametrize("body", HEAVY)
def test_a_stranger_s_body_costs_little(people: People, body: str) -> None:
    Api(None).post(TOKENS, {})
    status, seconds = processor_time(Api(None), "POST", TOKENS, HEAVY[body])
    assert status == 413
    assert seconds < LONGEST


def test_a_stranger_s_body_is_small(people: People) -> None:
    request = {"auth": {"identity": {"methods": ["token"], "token": {"id": "x" * 4096}}}}
    assert Api(None).post(TOKENS, request).status_code == 401
    request["auth"]["identity"]["more"] = "x" * 65_536  # type: ignore[assignment]
    assert Api(None).post(TOKENS, request).status_code == 413


def test_a_member_s_wrong_body_costs_little(people: People) -> None:
    """It is enough to know some of what is wrong."""
    api = Api(people.alice)
    api.post("/compute/v2.1/servers", {})
    server = {"name": "x", "flavorRef": "1", "networks": [1] * 300_000}
    status, seconds = processor_time(api, "POST", "/compute/v2.1/servers", {"server": server})
    assert status == 400
    assert seconds < LONGEST * 2


@pytest.mark.slow
@pytest.mark.parametrize("field", ["tags", "multi_factor_auth_rules"])
def test_repetitions_are_not_looked_for_in_a_list_that_is_too_long(people: People, field: str) -> None:
    """To compare each with each other of 9,000 took seven seconds."""
    api, many = Api(people.operator), [f"word {number}" for number in range(9_000)]
    mixed: list[Any] = [*many, {"no": "word"}]
    if field == "tags":
        path, body = "/identity/v3/projects", {"project": {"name": "x", "tags": mixed}}
    else:
        path, body = "/identity/v3/users", {"user": {"name": "x", "options": {field: [["password"], mixed]}}}
    status, seconds = processor_time(api, "POST", path, body)
    assert status == 400
    assert seconds < LONGEST


@pytest.mark.parametrize("comparison", ["name__contains=a", "name__iendswith=e", "password_expires_at=lt:2030-01-01"])
def test_a_list_is_narrowed_by_few_comparisons(people: People, comparison: str) -> None:
    """A thousand of them made a statement that SQLite refuses, which anybody with a token could send."""
    times = "T00:00:00Z" if comparison.startswith("password") else ""
    # Who may not list, and whose own is not among what is left, is refused.
    for number, expected in ((20, 403 if times else 200), (21, 400), (990, 400)):
        query = f"&{comparison}{times}" * number
        assert Api(people.alice).get(f"/identity/v3/users?name=alice{query}").status_code == expected
