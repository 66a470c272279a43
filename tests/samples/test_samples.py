"""What every operation answers, at every microversion where that changes; ``WRITE_SAMPLES=1`` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.reference.operations import DONE, operations
from tests.samples import recorder
from tests.samples.scenes import SCENES
from tests.support.cast import People
from tests.support.clouds import Cloud

NEVER_WELL = {
    ("compute", "GET /servers/{server_id}/migrations/{migration_id}"): "no live migration is ever in progress",
    ("image", "DELETE /v2/stores/{store_id}/{image_id}"): "an image is not taken out of the only store",
}
"""Operations that are done and refuse whatever is asked, with the reason."""


@pytest.mark.django_db
@pytest.mark.parametrize(("service", "name"), sorted(SCENES), ids=lambda each: each)
@pytest.mark.slow
def test_answers_are_as_recorded(
    people: People,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    name: str,
) -> None:
    settings.IMAGE_DIR = tmp_path / "images"
    settings.HOST_DOWN_AFTER = 3600
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    writes = bool(os.environ.get("WRITE_SAMPLES"))
    cloud = Cloud.make()
    kept = None if writes else recorder.load(service, name)
    scene = recorder.Scene(people, cloud, service, kept)
    SCENES[service, name](scene, monkeypatch)
    if writes:
        recorder.store(service, name, scene.pairs)
    found = {(pair["name"], pair.get("since")): pair for pair in scene.pairs}
    wanted = {(pair["name"], pair.get("since")): pair for pair in recorder.load(service, name)}
    assert list(found) == list(wanted)
    for key, pair in wanted.items():
        assert recorder.json_of(found[key]) == recorder.json_of(pair), key


def test_every_operation_has_a_pair() -> None:
    offered = [each for service in ("compute", "image") for each in operations(service)]
    known = {(each.service, each.name) for each in offered}
    done = {(each.service, each.name) for each in offered if each.outcome == DONE}
    pairs = list(recorder.every_pair())
    played = {(service, pair["operation"]) for service, pair in pairs}
    well = {(service, pair["operation"]) for service, pair in pairs if pair["response"]["status"] < 400}
    assert played <= known, "an address is not written as in the list of operations"
    assert sorted(done - played) == []
    assert sorted(done - well) == sorted(NEVER_WELL)
