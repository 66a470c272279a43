"""What every operation answers, at every microversion where that changes; ``WRITE_SAMPLES=1`` writes it anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from tests.reference.operations import DONE, TITLES, operations
from tests.samples import recorder, store
from tests.samples.scenes import SCENES
from tests.support.cast import People
from tests.support.clouds import Cloud

NEVER_WELL = {
    ("compute", "DELETE /servers/{server_id}/migrations/{migration_id}"): "no host of the samples sends a guest",
    ("compute", "POST /servers/{server_id}/action (migrate)"): "the agents of the samples are too old to move servers",
    ("compute", "POST /servers/{server_id}/migrations/{migration_id}/action"): "no host of the samples sends a guest",
    ("image", "DELETE /v2/stores/{store_id}/{image_id}"): "an image is not taken out of the only store",
    ("volume", "POST /v3/manageable_volumes"): "the samples' pool takes nothing over",
    ("volume", "POST /v3/os-volume-manage"): "the samples' pool takes nothing over",
    ("volume", "GET /v3/volumes/{volume_id}/encryption/{key}"): "the samples' volumes are not encrypted",
    ("volume", "POST /v3/volumes/{volume_id}/action (os-unmanage)"): "the samples' pool keeps nothing beside volumes",
}
"""Operations that are done and refuse whatever the samples ask, with the reason."""


@pytest.mark.django_db
@pytest.mark.parametrize(("service", "name"), sorted(SCENES), ids=lambda each: each)
@pytest.mark.parametrize(
    "everywhere", [False, pytest.param(True, marks=pytest.mark.deep)], ids=[pytest.HIDDEN_PARAM, "everywhere"]
)
@pytest.mark.slow
def test_answers_are_as_recorded(
    people: People,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    name: str,
    everywhere: bool,
) -> None:
    settings.IMAGE_DIR = tmp_path / "images"
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    writes = bool(os.environ.get("WRITE_SAMPLES"))
    cloud = Cloud.make()
    kept = None if writes else store.load(service, name)
    scene = recorder.Scene(people, cloud, service, kept, everywhere)
    SCENES[service, name](scene, monkeypatch)
    if writes:
        store.store(service, name, scene.pairs)
    result = {(pair["name"], pair.get("since")): pair for pair in scene.pairs}
    expected = {(pair["name"], pair.get("since")): pair for pair in store.load(service, name)}
    assert list(result) == list(expected)
    for key, pair in expected.items():
        assert store.exactly(result[key]) == store.exactly(pair), key


NOTHING_CHANGED = {
    4: "the address that it changed was removed (410)",
    12: "the address that it changed was removed (410)",
    18: "every version takes addresses with and without the project",
    27: "every version takes and answers both headers",
    34: "servers are not moved while they run: the refusal is not left to later",
    46: "every version answers both headers",
    65: "no host of the samples sends a guest",
    69: "there are no cells that could be away",
    72: "no port asks for a bandwidth",
    95: "the answer to an evacuation is empty as before: the server is stopped afterwards",
}
"""Microversions of Compute that change nothing here, with the reason."""


def test_every_microversion_of_compute_is_shown_by_what_it_changed() -> None:
    begins = {int(pair["since"].partition(".")[2]) for service, pair in store.every_pair() if service == "compute"}
    assert set(range(1, 97)) - begins == NOTHING_CHANGED.keys()


@pytest.mark.slow
def test_every_operation_has_a_pair() -> None:
    """Of the services that have samples."""
    played_services = {service for service, _ in SCENES}
    offered = [each for service in TITLES if service in played_services for each in operations(service)]
    known = {(each.service, each.name) for each in offered}
    done = {(each.service, each.name) for each in offered if each.outcome == DONE}
    pairs = list(store.every_pair())
    played = {(service, pair["operation"]) for service, pair in pairs}
    well = {(service, pair["operation"]) for service, pair in pairs if pair["response"]["status"] < 400}
    of_references = {each for each in played if "/novella-" not in each[1]}
    assert of_references <= known, "an address is not written as in the list of operations"
    assert sorted(done - played) == []
    assert sorted(done - well) == sorted(NEVER_WELL)


OLD = {"a/b": [{"n": 1}, 2, 3, 4], "~": {"x": 0}, "one": 1, "none": 0, "same": {"deep": [1]}}


@pytest.mark.parametrize(
    ("new", "changes"),
    [
        (OLD, 0),
        (OLD | {"a/b": [{"n": True}, 2]}, 3),
        (OLD | {"a/b": [{"n": 1}, 2, 3, 4, [5], 6]}, 2),
        (OLD | {"none": None, "one": 1.0, "~": {}}, 3),
        (OLD | {"~": [], "same": {"deep": [1], "more": {}}}, 2),
        ({"same": {"deep": [2]}}, 5),
    ],
)
def test_a_difference_makes_the_new_of_the_old(new: dict[str, Any], changes: int) -> None:
    difference = store.Difference.between(OLD, new)
    assert len(difference.set) + len(difference.without) == changes
    assert store.exactly(difference.applied(OLD)) == store.exactly(new)


def test_what_is_stored_comes_back() -> None:
    first: dict[str, Any] = {
        "name": "list",
        "operation": "GET /servers",
        "since": "2.1",
        "until": "2.8",
        "request": {"who": "alice", "path": "/servers"},
        "response": {"status": 200, "body": {f"name-{number}": "x" * 60 for number in range(9)}},
    }
    body = first["response"]["body"]
    pairs = [
        first,
        first | {"since": "2.9", "until": "2.9", "response": {"status": 200, "body": body | {"more": None}}},
        first | {"name": "page", "operation": "GET /servers/detail", "response": {"status": 203, "body": body}},
        first | {"name": "page", "since": "2.9", "response": {"status": 404}},
    ]
    written = json.loads(json.dumps(store.short(pairs)))
    assert [each.get("like") for each in written] == [None, "list 2.1", "list 2.1", None]
    assert list(map(store.exactly, store.whole(written))) == list(map(store.exactly, pairs))
