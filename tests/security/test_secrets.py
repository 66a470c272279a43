"""Secrets stand where they are needed and nowhere else: not in the log, an event, a fault or another answer."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable

import pytest

from provisioning.compute.models import InstanceAction, InstanceActionEvent, InstanceFault
from provisioning.events.models import Event
from tests.security.conftest import World
from tests.support.cast import Api, People

CANARY = "canary-5f1e"


def sent(people: People, world: World, ref: str) -> tuple[Api, list[str]]:
    """Send secrets in every way there is, rightly and wrongly; return the answers' texts."""
    texts = []
    alice = Api(people.alice)
    user = {"name": "alice", "domain": {"id": "default"}, "password": CANARY}
    wrong_type = {"user": {"original_password": [CANARY], "password": {CANARY: 1}}}
    for body in (
        {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}},
        {"auth": {"identity": {"methods": ["password"], "password": {"user": user | {"password": [CANARY]}}}}},
        {"auth": {"identity": {"methods": ["password"], "password": {"user": user | {"password": CANARY * 500}}}}},
        {"auth": {"identity": {"methods": ["token"], "token": {"id": CANARY}}}},
    ):
        texts.append(Api(None).post("/identity/v3/auth/tokens", body).content.decode())
    path = f"/identity/v3/users/{people.alice.user_id.hex}/password"
    texts.append(alice.post(path, wrong_type).content.decode())
    texts.append(alice.post(path, {"user": {"original_password": CANARY, "password": CANARY}}).content.decode())
    texts.append(Api(None).get("/compute/v2.1/servers", X_Auth_Token=CANARY).content.decode())
    data = base64.b64encode(CANARY.encode()).decode()
    for user_data in (data, CANARY, [CANARY], CANARY * 9000):
        server = {"name": "x", "flavorRef": "1", "imageRef": ref, "user_data": user_data}
        server["networks"] = [{"uuid": str(world.cloud.network.id)}]
        texts.append(alice.post("/compute/v2.1/servers", {"server": server}).content.decode())
    form = {"user_name": "alice", "password": CANARY}
    texts += [world.browser("nobody").post(page, form).content.decode() for page in ("/auth/login/",)]
    form = {"username": "alice", "password": CANARY}
    texts += [world.browser("nobody").post("/admin/login/", form).content.decode()]
    world.cloud.run()
    texts.append(alice.get("/compute/v2.1/servers/detail").content.decode())
    return texts


@pytest.mark.slow
def test_no_secret_is_reported(world: World, people: People, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("django.db.backends").setLevel(logging.INFO)
    texts = sent(people, world, world.ids["public_image"])
    assert sum(text.startswith('{"server":') for text in texts) == 1
    kept: Iterable[object] = [
        *Event.objects.values_list("payload", flat=True),
        *InstanceFault.objects.values_list("message", "details"),
        *InstanceAction.objects.values(),
        *InstanceActionEvent.objects.values(),
    ]
    tokens = [value[:40] for value in world.tokens.values() if value]
    for word in (CANARY, base64.b64encode(CANARY.encode()).decode(), *tokens):
        assert word not in caplog.text
        assert not [text for text in texts if word in text]
        assert word not in repr(kept)


@pytest.mark.slow
def test_no_cache_keeps_an_answer_with_a_secret(world: World, people: People) -> None:
    alice = Api(people.alice)
    server, user = world.ids["server"], people.alice.user_id.hex
    launched = {"name": "x", "flavorRef": "1", "imageRef": world.ids["public_image"], "networks": "none"}
    console = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    newer = {"OpenStack_API_Version": "compute 2.96"}
    answers = [
        alice.post("/compute/v2.1/os-keypairs", {"keypair": {"name": "k"}}),
        alice.post("/compute/v2.1/servers", {"server": launched}, **newer),
        alice.post(f"/compute/v2.1/servers/{server}/remote-consoles", console, **newer),
        alice.post(f"/compute/v2.1/servers/{server}/action", {"rescue": None}),
        alice.post(
            f"/volume/v3/{people.alice.project_id.hex}/os-volume-transfer",
            {"transfer": {"volume_id": world.ids["volume"]}},
        ),
        alice.post(f"/identity/v3/users/{user}/application_credentials", {"application_credential": {"name": "c"}}),
        alice.post(f"/identity/v3/users/{user}/credentials/OS-EC2", {"tenant_id": people.alice.project_id.hex}),
        alice.get(f"/identity/v3/users/{user}/credentials/OS-EC2"),
        alice.get("/identity/v3/credentials"),
    ]
    for answer in answers:
        assert answer.status_code < 300, answer.content
        assert answer.headers.get("Cache-Control") == "no-store", answer.content
    assert "Cache-Control" not in alice.get(f"/compute/v2.1/servers/{server}").headers
