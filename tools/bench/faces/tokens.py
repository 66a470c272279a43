"""Measures how fast tokens are issued and validated: over HTTP, and inside Django without it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tools.bench.cloud import BenchError, Cloud
from up.credentials import token_request

TOKENS = "/identity/v3/auth/tokens"
SENDERS = 4

_CHECKS = """
import json, time
from provisioning.identity.selectors.tokens import context_for_token
value, seconds = {value!r}, []
for number in range(2100):
    began = time.perf_counter()
    context_for_token(value)
    seconds.append(time.perf_counter() - began)
print(json.dumps(seconds[100:]))
"""


@dataclass(frozen=True)
class Tokens:
    """Seconds of single requests, and requests per second with SENDERS simultaneous clients."""

    issued: list[float]
    issued_a_second: float
    looked_into: list[float]
    looked_into_a_second: float
    checked: list[float]
    """Seconds of one check in the process, warm."""


class _Asker:
    """A connection that issues and validates tokens; threads must not share it."""

    def __init__(self, cloud: Cloud, user: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=30)
        self._body = token_request(user, cloud.password(user), user)
        self.token = ""

    def issue(self) -> None:
        """Get a token with a password."""
        self.token = str(self._ask("POST", {}, self._body).headers["X-Subject-Token"])

    def look(self) -> None:
        """Validate the token that was issued last."""
        self._ask("GET", {"X-Auth-Token": self.token, "X-Subject-Token": self.token}, None)

    def _ask(self, method: str, headers: dict[str, str], body: Any) -> http.client.HTTPResponse:
        text = json.dumps(body) if body is not None else None
        self._connection.request(method, TOKENS, text, {**headers, "Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 400:
            raise BenchError(f"{method} {TOKENS}: {response.status} {answer[:300]!r}")
        return response


def measure(cloud: Cloud, count: int) -> Tokens:
    """Measure ``count`` requests one after the other, and the same number with SENDERS simultaneous clients."""
    askers = [_Asker(cloud, "demo") for _ in range(SENDERS)]
    for asker in askers:
        asker.issue()
    issued = [_timed(askers[0].issue) for _ in range(count)]
    looked = [_timed(askers[0].look) for _ in range(count)]
    return Tokens(
        issued=issued,
        issued_a_second=_a_second([asker.issue for asker in askers], count),
        looked_into=looked,
        looked_into_a_second=_a_second([asker.look for asker in askers], count),
        checked=json.loads(
            cloud.manage("shell", "--verbosity", "0", "--command", _CHECKS.format(value=askers[0].token))
        ),
    )


def _timed(ask: Callable[[], None]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def _a_second(asks: list[Callable[[], None]], count: int) -> float:
    def several(ask: Callable[[], None]) -> None:
        for _ in range(count // SENDERS):
            ask()

    began = time.perf_counter()
    with ThreadPoolExecutor(SENDERS) as pool:
        list(pool.map(several, asks))
    return (count // SENDERS) * SENDERS / (time.perf_counter() - began)
