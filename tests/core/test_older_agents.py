"""Agents one version of the contract older than the portal: they stay connected while their hosts wait for the upgrade.

``contract_4`` holds the schema and samples of every message as they were when version 4 was current.
"""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.utils import timezone
from jsonschema import Draft202012Validator

from compute_agent.contract.base import Message
from compute_agent.contract.calls import CallError, DiagnosticsCall
from compute_agent.contract.commands import PowerRequest
from compute_agent.contract.messages import (
    CONTRACT_VERSION,
    OLDEST_CONTRACT,
    Enrol,
    Hello,
    ToAgent,
    ToPortal,
    Welcome,
    decode_call_result,
    decode_to_agent,
    encode,
)
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotAuthenticatedError
from provisioning.compute.actions.power import Stop
from provisioning.compute.models import InstanceAction
from provisioning.hosts import calls, enrolment, liveness, versions
from provisioning.hosts.models import Host, HostCall, HostCommand
from tests.support.clouds import Cloud, state_of
from tests.support.contract_samples import DIRECTIONS, samples

FROZEN = 4


@cache
def frozen(direction: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (Path(__file__).parent / f"contract_{FROZEN}" / f"{direction}.json").read_text()
    )
    return content


def within(small: Any, large: Any) -> bool:
    """Return whether everything in ``small`` is in ``large`` as well, which may have more fields."""
    if isinstance(small, dict):
        return isinstance(large, dict) and all(key in large and within(small[key], large[key]) for key in small)
    if isinstance(small, list):
        return isinstance(large, list) and len(small) == len(large) and all(map(within, small, large))
    return bool(small == large)


def test_the_portal_accepts_exactly_one_older_version() -> None:
    assert (OLDEST_CONTRACT, CONTRACT_VERSION) == (FROZEN, FROZEN + 1)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_each_message_of_the_older_version_is_read_without_loss(direction: str) -> None:
    for sample in frozen(direction)["samples"]:
        message = msgspec.json.decode(msgspec.json.encode(sample), type=DIRECTIONS[direction])
        assert within(sample, msgspec.to_builtins(message))


@pytest.mark.slow
def test_an_older_agent_reads_each_message_that_is_sent_to_it() -> None:
    """A field may be added, never removed or required; a message that the older version lacks says since when it is."""
    reader = Draft202012Validator(frozen("to_agent")["schema"])
    for sample in samples(ToAgent):
        message = decode_to_agent(json.dumps(sample))
        body: Message = getattr(message, "body", message)
        if body.needed_version() <= OLDEST_CONTRACT:
            assert reader.is_valid(sample), (sample["type"], sample.get("body", {}).get("type"))


@pytest.mark.parametrize("kind", ["enrol", "hello"])
def test_an_older_portal_reads_the_first_message_of_an_agent(kind: str) -> None:
    """So that it can say that the portal is upgraded first."""
    reader = Draft202012Validator(frozen("to_portal")["schema"])
    assert all(reader.is_valid(sample) for sample in samples(ToPortal) if sample["type"] == kind)


@pytest.mark.django_db
def test_a_portal_tells_a_newer_agent_that_the_portal_is_upgraded_first(cloud: Cloud) -> None:
    host, newer = cloud.add_host("kelvin").host, CONTRACT_VERSION + 1
    for greet in (
        lambda: liveness.connected(host.id, Hello(host="kelvin", contract=newer)),
        lambda: enrolment.enrol(Enrol(join_token="x", host="ohm", credential="c" * 64, contract=newer)),
    ):
        with pytest.raises(NotAuthenticatedError, match="portal first"):
            greet()
    with pytest.raises(NotAuthenticatedError, match="agent"):
        liveness.connected(host.id, Hello(host="kelvin", contract=OLDEST_CONTRACT - 1))


@pytest.mark.slow
@pytest.mark.django_db
def test_a_server_lives_on_a_host_with_an_older_agent(cloud: Cloud, alice: RequestContext) -> None:
    """Each frame is one that the older agent can read."""
    agent, reader = cloud.add_host("kelvin", documents=True), Draft202012Validator(frozen("to_agent")["schema"])
    agent.hello(contract=OLDEST_CONTRACT)
    agent.host.contract_version = OLDEST_CONTRACT
    taken = agent.take

    def take(**how: Any) -> Any:
        given = taken(**how)
        assert all(reader.is_valid(json.loads(encode(command))) for command in given)
        return given

    agent.take = take  # type: ignore[method-assign]
    instance = cloud.running(alice)
    Stop.begin(alice, instance.id)
    cloud.run()
    assert state_of(instance) == ("stopped", None)
    assert reader.is_valid(json.loads(encode(Welcome(host="kelvin", host_id="x"))))
    assert reader.is_valid(json.loads(encode(liveness.ownership(agent.host.id))))


@pytest.mark.django_db
def test_a_command_that_an_agent_is_too_old_for_fails_with_the_reason(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = cloud.add_host("kelvin", documents=True)
    instance = cloud.running(alice)
    monkeypatch.setattr(PowerRequest, "since", CONTRACT_VERSION)
    Host.objects.update(contract_version=OLDEST_CONTRACT)
    Stop.begin(alice, instance.id)
    cloud.run()
    assert state_of(instance) == ("active", None), "the task has ended, and the server is as it was"
    assert not HostCommand.objects.filter(finished_at=None).exists()
    assert InstanceAction.objects.get(instance=instance, action="stop").message
    Host.objects.update(contract_version=CONTRACT_VERSION)
    Stop.begin(alice, instance.id)
    cloud.run()
    assert state_of(instance) == ("stopped", None)
    assert agent.guests[str(instance.id)][1] == 4


@pytest.mark.django_db
@pytest.mark.parametrize(("version", "sent"), [(OLDEST_CONTRACT, 0), (CONTRACT_VERSION, 1)])
def test_a_call_that_an_agent_is_too_old_for_is_answered_with_the_reason(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, version: int, sent: int
) -> None:
    host = cloud.add_host("kelvin").host
    Host.objects.update(contract_version=version)
    monkeypatch.setattr(DiagnosticsCall, "since", CONTRACT_VERSION)
    body = encode(DiagnosticsCall(instance_id=str(uuid.uuid4()))).decode()
    expires = timezone.now() + timedelta(minutes=1)
    HostCall.objects.create(host_id=host.id, body=body, expires_at=expires)
    assert len(versions.calls_for(host.id)) == sent
    assert len(calls.pending_calls(host.id)) == sent
    if not sent:
        answer = decode_call_result(HostCall.objects.get().result or "")
        assert isinstance(answer, CallError)
        assert answer.code == versions.UNSUPPORTED
