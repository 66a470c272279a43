"""What the fuzzer found: each refusal as it has to be."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.ec2_api.things import Things
from tests.fuzz.requests import server_body
from tests.security.conftest import World
from tests.support.ec2 import ask, pairs_of

pytestmark = pytest.mark.both_databases("sql")


def test_an_address_with_a_line_break_is_refused_in_the_service_s_shape(client: Client, db: None) -> None:
    """The pattern behind all other addresses of the Compute API did not reach beyond the line."""
    for path in ("/compute/v2.1/servers//os-volume_attachments/%0A", "/compute/v2.1/nothing/%0A%0A"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json()["itemNotFound"]["code"] == 404
    assert client.get("/compute/%0Ax").json()["choices"]


@pytest.mark.slow
def test_the_body_that_the_fuzzer_bends_makes_aserver_body(world: World, client: Client) -> None:
    """Otherwise it would try refusals alone."""
    headers = {"X-Auth-Token": world.tokens["member"], "OpenStack-API-Version": "compute 2.96"}
    for networks in ("none", [{"uuid": world.ids["own_network"]}]):
        body = server_body(world, networks)
        answer = client.post("/compute/v2.1/servers", body, content_type="application/json", headers=headers)
        assert answer.status_code == 202, answer.json()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "arguments", "code"),
    [
        (
            "AssociateAddress",
            {
                "AllocationId": "<eipalloc>",
                "NetworkInterfaceId": "<eni>",
                "PrivateIpAddress": "\N{ARABIC-INDIC DIGIT THREE}",
            },
            "InvalidParameterValue",
        ),
    ],
)
def test_ec2_refuses_what_the_fuzzer_found(
    things: Things, client: Client, action: str, arguments: dict[str, str], code: str
) -> None:
    given = {name: things.filled(value) for name, value in arguments.items()}
    assert ask(client, things.keys["member"], action, pairs_of(action, given)).code == code
