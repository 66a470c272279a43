"""The agents' door for firmware states: who may send and fetch what, and every answer a host must understand."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.test import Client

from compute_agent.contract.commands import BuildRequest
from compute_agent.contract.firmware_state import MOST_BYTES
from compute_agent.contract.messages import Enrol
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.models import FirmwareState, Instance
from provisioning.hosts import enrolment
from provisioning.hosts.models import Host
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain

STATE = b"packed by the host"
DIGEST = hashlib.sha256(STATE).hexdigest()


class Door:
    """A host that was ordered to shelve a volume-backed server with UEFI, at the agents' address."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.client = cloud, Client(enforce_csrf_checks=True)
        self.agent = cloud.add_host("h1")
        self.server: Instance = cloud.launch(context("alice"))
        cloud.run()
        self.credential = secrets.token_hex(32)
        Host.objects.filter(name="h1").update(credential_digest="")
        enrolment.enrol(Enrol(join_token=enrolment.create_join_token("h1"), host="h1", credential=self.credential))
        columns = {"image_properties": {"hw_firmware_type": "uefi"}, "image_id": None}
        Instance.objects.filter(id=self.server.id).update(**columns)
        Shelve.begin(context("alice"), self.server.id)
        (self.command,) = self.agent.take()

    def ask(self, method: str, body: bytes = b"", digest: str = DIGEST, **headers: str) -> Any:
        sent_headers = {"authorization": f"Bearer {self.credential}", "x-novella-host": "h1", **headers}
        path = f"/agent/v1/instances/{self.server.id}/firmware/{digest}"
        return self.client.generic(method, path, body, "application/octet-stream", headers=sent_headers)

    def unshelve(self) -> None:
        self.agent.carry_out(self.command)
        self.cloud.run()
        assert state_of(self.server) == ("shelved_offloaded", None)
        unshelve(context("alice"), self.server.id)
        drain()


@pytest.fixture
def door(db: None) -> Door:
    return Door(Cloud.make())


def test_a_state_is_stored_and_fetched_with_its_build(door: Door) -> None:
    door.agent.firmware[str(door.server.id)] = STATE
    assert door.ask("PUT", STATE).status_code == 204
    assert door.ask("GET").status_code == 404  # no build needs it
    door.unshelve()
    (digest,) = (each.body.firmware_state for each in door.agent.take() if isinstance(each.body, BuildRequest))
    answer = door.ask("GET", digest=digest)
    assert (answer.status_code, answer.content) == (200, STATE)
    FirmwareState.objects.update(packed=Fernet(Fernet.generate_key()).encrypt(STATE).decode())
    assert door.ask("GET").status_code == 410


def test_refused_states_are_refused_with_a_reason(door: Door) -> None:
    for body, digest, status, reason in (
        (b"x" * (MOST_BYTES + 1), DIGEST, 413, b"more than 1024 KiB"),
        (b"other", DIGEST, 400, hashlib.sha256(b"other").hexdigest().encode()),
    ):
        answer = door.ask("PUT", body, digest)
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "text/plain")
        assert reason in answer.content
    assert not FirmwareState.objects.exists()


def test_strangers_and_other_hosts_send_and_get_nothing(door: Door) -> None:
    other = secrets.token_hex(32)
    enrolment.enrol(Enrol(join_token=enrolment.create_join_token("h2"), host="h2", credential=other))
    for method in ("PUT", "GET"):
        assert door.ask(method, STATE, authorization="Bearer wrong").status_code == 401
        as_other = {"authorization": f"Bearer {other}", "x-novella-host": "h2"}
        assert door.ask(method, STATE, **as_other).status_code == 404
    assert not FirmwareState.objects.exists()
