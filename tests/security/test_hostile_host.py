"""A host with a good credential and bad manners: it must not harm anything but what it holds itself."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from django.db import connection

from compute_agent.contract.calls import CallError, DiagnosticsCall
from compute_agent.contract.messages import GuestState
from provisioning.common.errors import UnavailableError
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.upkeep.reconcile import compare
from provisioning.hosts import calls
from provisioning.hosts.models import Host
from tests.security.conftest import World
from tests.support.cast import People
from tests.support.clouds import Cloud, state_of
from tests.support.jobs import drain


@pytest.fixture
def cloud_host(transactional_db: None) -> Host:
    return Cloud.make().add_host("h1").host


WITHIN = 120.0
"""Seconds that a busy machine may take for what other threads do."""
MARKUP = "<script>alert(1)</script>\x1b[2J\x00\u2028"


@pytest.mark.slow
@pytest.mark.parametrize("number", ["²", "٣", "9" * 200, "-1", "1e9"])
def test_what_a_host_says_of_a_step_breaks_no_page(world: World, people: People, number: str) -> None:
    agent = world.cloud.agents["h1"]
    server = world.cloud.launch(
        people.alice.context, networks=(NetworkRequest(network_id=str(world.cloud.network.id)),)
    )
    drain()
    (command,) = agent.take()
    detail = {"bytes": number, "cached": MARKUP, MARKUP: MARKUP}
    agent.report(command, "step", step="fetch_image", started_at=1e300, finished_at=-1e300, detail=detail, message="")
    agent.report(command, "failed", error_code=MARKUP, message=MARKUP, retryable=False)
    assert state_of(server)[0] == "error"
    page = world.browser("member").get(f"/instances/{server.id}/")
    assert page.status_code == 200
    assert "<script>alert" not in page.content.decode()


def test_a_host_that_makes_up_guests_pushes_nothing_else_out_of_the_log(
    cloud_host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    made_up = [GuestState(instance_id=str(uuid.uuid4()), power_state=1, attempt=1) for _ in range(2000)]
    senseless = [GuestState(instance_id=f"x\n{number}", power_state=1, attempt=1) for number in range(2000)]
    compare(cloud_host.id, [*made_up, *senseless], complete=False)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert all("2000 guests" in line and len(line) < 1500 and "\n" not in line for line in lines)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_host_that_never_answers_holds_few_threads(cloud_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads that serve pages could otherwise be kept waiting for one silent host.

    Those that may wait give up only when all others were refused.
    """
    answers: list[str] = []
    others_refused = threading.Event()
    really_call = calls._call

    def call(*arguments: Any) -> Any:
        assert others_refused.wait(WITHIN)
        return really_call(*arguments)

    def ask() -> None:
        try:
            calls.call(cloud_host.id, DiagnosticsCall(instance_id=str(uuid.uuid4())), timeout=0.1)
        except UnavailableError as error:
            answers.append(str(error))
            if len(answers) >= 16 - calls.MOST_OF_HOST:
                others_refused.set()
        finally:
            connection.close()

    monkeypatch.setattr(calls, "_call", call)
    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WITHIN)
    assert answers.count(calls.NO_ANSWER) == calls.MOST_OF_HOST
    assert len(answers) == 16


def test_a_silent_host_keeps_nobody_from_asking_others(monkeypatch: pytest.MonkeyPatch) -> None:
    silent, lively = uuid.uuid4(), uuid.uuid4()
    waiting, done = threading.Barrier(calls.MOST_OF_HOST + 1), threading.Event()
    body = DiagnosticsCall(instance_id="x")

    def wait(host_id: uuid.UUID, *_: object) -> CallError:
        if host_id == silent:
            waiting.wait(WITHIN)
            done.wait(WITHIN)
        return CallError(code="not_found", message="x")

    monkeypatch.setattr(calls, "_call", wait)
    threads = [threading.Thread(target=calls.call, args=(silent, body, 1.0)) for _ in range(calls.MOST_OF_HOST)]
    for thread in threads:
        thread.start()
    waiting.wait(WITHIN)
    with pytest.raises(UnavailableError) as refused:
        calls.call(silent, body, 1.0)
    assert refused.value.retry_after == calls.RETRY_AFTER
    assert isinstance(calls.call(lively, body, 1.0), CallError)
    done.set()
    for thread in threads:
        thread.join()
    assert not calls._waiting
