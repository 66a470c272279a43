"""What lists of the Block Storage API are filtered by: pairs of metadata, and the events of messages."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from provisioning.volumes.models import Message, PoolHost
from tests.support.tables import each_row
from tests.volume_api.conftest import V3, World, at

pytestmark = pytest.mark.django_db
NEWEST = at("3.70")


def _found(world: World, metadata: str) -> Any:
    answer = world.alice.get(f"{V3}/volumes?metadata={quote(metadata)}", **NEWEST)
    return [each["id"] for each in answer.json()["volumes"]] if answer.status_code == 200 else answer.status_code


@pytest.mark.both_databases("sql")
def test_pairs_of_metadata_are_stored_as_they_were_sent(world: World) -> None:
    metadata = {"cpu": "4", "7": "seven", "u": "you", "list": "a, b: c", "quo\"ted'": "'it'", "é": "ü"}
    ident = world.make(metadata=metadata)
    world.make(metadata={"cpu": "40"})
    for key, value in metadata.items():
        assert _found(world, str({key: value})) == [ident], key
        assert _found(world, str({key: value + "x"})) == [], key
    assert _found(world, "{u'cpu': u'4', \"7\": \"seven\"}") == [ident]
    assert _found(world, "{'4': 'cpu'}") == []


@each_row(
    "wrong",
    [
        "cpu", "{cpu: 4}", "{'cpu': 4}", "{'cpu'}", "['cpu']", "{'cpu': '4'", "{[]: '4'}", "{'a': '\\0'}",
        "{'\\ud800': '4'}", "{'a': " + 999 * "[", "{'a': '" + 20_000 * "b" + "'}",
    ],
)  # fmt: skip
def test_what_are_no_pairs_is_refused(world: World, wrong: str) -> None:
    assert _found(world, wrong) == 400


def test_an_event_is_the_whole_of_its_id(world: World) -> None:
    PoolHost.objects.all().delete()
    assert world.show(world.make())["status"] == "error"
    where = f"{V3}/messages?event_id="
    [event] = [each["event_id"] for each in world.alice.get(f"{V3}/messages", **NEWEST).json()["messages"]]
    kind, action, detail = event.rsplit("_", 2)
    known = {event: 1, f"{kind}_999_{detail}": 0, f"OTHER_{action}_{detail}": 0, f"{action}_{detail}": 0, detail: 0}
    for requested, many in known.items():
        assert len(world.alice.get(where + requested, **NEWEST).json()["messages"]) == many, requested
    Message.objects.update(resource_type="VOLUME_SNAPSHOT")
    assert len(world.alice.get(f"{where}VOLUME_SNAPSHOT_{action}_{detail}", **NEWEST).json()["messages"]) == 1
