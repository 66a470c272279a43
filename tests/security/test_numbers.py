"""Numbers and words at the edge of what a type holds are refused, not stumbled over."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client

from compute_agent.contract.calls import ConsoleOutput, ConsoleOutputCall
from compute_agent.contract.messages import decode_call_body, encode
from provisioning.hosts import calls
from tests.security.conftest import World

pytestmark = pytest.mark.slow

LENGTHS = [
    '"' + "9" * 5000 + '"',
    '"' + "9" * 30 + '"',
    "1e30",
    "9223372036854775808",
    "18446744073709551616",
    '"5\\n"',
    '"-0"',
]


@pytest.mark.parametrize("length", LENGTHS)
def test_console_length(world: World, length: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[int | None] = []

    def call(host_id: uuid.UUID, body: ConsoleOutputCall, timeout: float) -> ConsoleOutput:
        requests.append(decode_call_body(encode(body)).lines)  # type: ignore[union-attr]
        return ConsoleOutput(text="")

    monkeypatch.setattr(calls, "call", call)
    headers = {"X-Auth-Token": world.tokens["member"]}
    path = f"/compute/v2.1/servers/{world.ids['server']}/action"
    body = f'{{"os-getConsoleOutput": {{"length": {length}}}}}'
    answer = Client(raise_request_exception=False).generic("POST", path, body, "application/json", headers=headers)
    assert answer.status_code < 500


@pytest.mark.parametrize("count", ["²", "٣", "-1", "1e3", "99999", "0x1", ""])
def test_wizard_count(world: World, count: str) -> None:
    form = {"name": "x", "image": world.ids["public_image"], "flavor": "1", "count": count}
    for path in ("/instances/launch/", "/instances/launch/quote/"):
        assert world.browser("member").post(path, form).status_code < 500


@pytest.mark.parametrize("value", ["²", "٣", "9" * 5000, "-1", "1e3", "9223372036854775808"])
def test_sizes(world: World, value: str) -> None:
    form = {"name": "x", "disk_format": "raw", "min_disk": value, "min_ram": value}
    assert world.browser("member").post("/images/upload/", form).status_code < 500
    form = {"name": "y", "vcpus": value, "memory_mb": value, "root_gb": value}
    assert world.browser("operator").post("/flavors/create/", form).status_code < 500
