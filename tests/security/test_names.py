"""Names with control characters are refused by each service in its own shape: they forge lines in logs and lists."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cast import Api, People

pytestmark = pytest.mark.django_db
V3, V2 = "/identity/v3", "/image/v2"
WRONG = ["a\nb", "a\rb", "a\tb", "a\x1b[2Jb", "a\x7fb", "a\x85b", "a\u2028b", "\x01"]
MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "user": (f"{V3}/users", {"user": {"name": "{}", "password": "a good one indeed"}}),
    "project": (f"{V3}/projects", {"project": {"name": "{}"}}),
    "role": (f"{V3}/roles", {"role": {"name": "{}"}}),
    "domain": (f"{V3}/domains", {"domain": {"name": "{}"}}),
    "group": (f"{V3}/groups", {"group": {"name": "{}"}}),
    "application credential": (
        f"{V3}/users/OPERATOR/application_credentials",
        {"application_credential": {"name": "{}"}},
    ),
    "image": (f"{V2}/images", {"name": "{}"}),
    "tag of an image": (f"{V2}/images", {"name": "x", "tags": ["{}"]}),
    "property of an image": (f"{V2}/images", {"name": "x", "{}": "y"}),
    "key pair": ("/compute/v2.1/os-keypairs", {"keypair": {"name": "{}"}}),
    "server group": ("/compute/v2.1/os-server-groups", {"server_group": {"name": "{}", "policies": ["affinity"]}}),
    "flavor": ("/compute/v2.1/flavors", {"flavor": {"name": "{}", "ram": 64, "vcpus": 1, "disk": 1}}),
    "service": (f"{V3}/services", {"service": {"name": "{}", "type": "mine"}}),
    "aggregate": ("/compute/v2.1/os-aggregates", {"aggregate": {"name": "{}"}}),
}


def named(given: Any, name: str) -> Any:
    if isinstance(given, dict):
        return {named(key, name): named(value, name) for key, value in given.items()}
    if isinstance(given, list):
        return [named(value, name) for value in given]
    return name if given == "{}" else given


@pytest.mark.parametrize("kind", MADE)
def test_names_with_control_characters_are_refused(people: People, kind: str) -> None:
    path, body = MADE[kind]
    path, api = path.replace("OPERATOR", people.operator.user_id.hex), Api(people.operator)
    for wrong in WRONG:
        answer = api.post(path, named(body, wrong))
        assert answer.status_code == 400, (kind, wrong)
        shape = {"identity": "error", "image": "message", "compute": "badRequest"}[path.split("/")[1]]
        assert shape in answer.json()
    good = {"tag of an image": "Ümläut 日本"}.get(kind, "good" if kind == "key pair" else "Ümläut 日本")
    assert api.post(path, named(body, good)).status_code in {200, 201}, api.post(path, named(body, good)).json()


@pytest.mark.parametrize("kind", ["users", "projects", "roles"])
def test_nor_are_they_given_later(people: People, kind: str) -> None:
    one, api = kind[:-1], Api(people.operator)
    made = api.post(f"{V3}/{kind}", {one: {"name": "before"}}).json()[one]["id"]
    assert api.patch(f"{V3}/{kind}/{made}", {one: {"name": "af\nter"}}).status_code == 400
    assert api.get(f"{V3}/{kind}/{made}").json()[one]["name"] == "before"
