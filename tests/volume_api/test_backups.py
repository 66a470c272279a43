"""Backups over the Block Storage API."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from provisioning.volumes.models import Backup
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.support.backup_host import BackupHost, ClientLink, MemoryCopies
from tests.support.cast import Api, People
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent
from tests.volume_api.conftest import V3, at

pytestmark = pytest.mark.django_db
BACKUPS = f"{V3}/backups"


@pytest.fixture
def agent(people: People, settings: Any, tmp_path: Path) -> ScriptedAgent:
    settings.BACKUP_DIR = tmp_path / "backups"
    agent = ScriptedAgent.join("kelvin")
    agent.serve()
    agent.backups = BackupHost(ClientLink(agent.host), MemoryCopies(tmp_path))
    return agent


@pytest.fixture
def volume(people: People, agent: ScriptedAgent) -> str:
    made = Create.begin(people.alice.context, VolumeRequest(size_gb=1, name="data"))
    agent.work()
    return str(made.id)


def _make(api: Api, agent: ScriptedAgent, volume: str, **values: object) -> str:
    answer = api.post(BACKUPS, {"backup": {"volume_id": volume, **values}}, **at("3.51"))
    assert answer.status_code == 202, answer.content
    agent.work()
    return str(answer.json()["backup"]["id"])


@pytest.mark.both_databases("locks")
def test_backups_live_through_the_api(api: Api, agent: ScriptedAgent, volume: str) -> None:
    first = _make(api, agent, volume, name="one", metadata={"a": "b"})
    second = _make(api, agent, volume, name="two", incremental="True", availability_zone="nova")
    shown = api.get(f"{BACKUPS}/{first}", **at("3.56")).json()["backup"]
    assert (shown["status"], shown["size"], shown["metadata"]) == ("available", 1, {"a": "b"})
    assert (shown["is_incremental"], shown["has_dependent_backups"], shown["object_count"]) == (False, True, 2)
    assert "metadata" not in api.get(f"{BACKUPS}/{first}").json()["backup"]
    listed = api.get(f"{BACKUPS}/detail?sort=name:desc&with_count=true&limit=1", **at("3.45")).json()
    assert ([row["id"] for row in listed["backups"]], listed["count"]) == ([second], 2)
    assert listed["backups"][0]["is_incremental"] is True
    assert "marker=" in listed["backups_links"][0]["href"]
    assert len(api.get(f"{BACKUPS}?name~=tw", **at("3.34")).json()["backups"]) == 1
    changed = api.put(f"{BACKUPS}/{first}", {"backup": {"name": "new", "metadata": {}}}, **at("3.43"))
    assert changed.json()["backup"]["name"] == "new"
    assert api.put(f"{BACKUPS}/{first}", {"backup": {"name": "x"}}).status_code == 404
    restored = api.post(f"{BACKUPS}/{second}/restore", {"restore": {}}).json()["restore"]
    assert restored["volume_name"] == f"restore_backup_{second}"
    agent.work()
    assert api.delete(f"{BACKUPS}/{first}").status_code == 400
    for each in (second, first):
        assert api.delete(f"{BACKUPS}/{each}").status_code == 202
        drain()
    assert api.get(f"{BACKUPS}/{first}").json()["itemNotFound"]["code"] == 404


@pytest.mark.slow
def test_nonsense_and_strangers_are_refused(
    api: Api, operator_api: Api, people: People, agent: ScriptedAgent, volume: str
) -> None:
    for wrong in (
        {},
        {"volume_id": volume, "name": "a" * 256},
        {"volume_id": volume, "name": "a\x07"},
        {"volume_id": volume, "force": "perhaps"},
        {"volume_id": volume, "other": 1},
        {"volume_id": volume, "metadata": {"a": "b"}},
        {"volume_id": volume, "incremental": True},
        {"volume_id": volume, "snapshot_id": str(uuid.uuid4())},
        {"volume_id": str(uuid.uuid4())},
    ):
        assert api.post(BACKUPS, {"backup": wrong}).status_code in {400, 404}, wrong
    assert Backup.objects.count() == 0
    backup = _make(api, agent, volume)
    stranger = Api(people.charlie)
    assert stranger.get(BACKUPS).json() == {"backups": []}
    for method, path, body in (
        ("get", "", None),
        ("delete", "", None),
        ("post", "/restore", {"restore": {}}),
    ):
        call = getattr(stranger, method)
        where = f"{BACKUPS}/{backup}{path}"
        assert (call(where) if body is None else call(where, body)).status_code == 404
    assert api.get(f"{BACKUPS}/{backup}/export_record").status_code == 403
    assert api.post(f"{BACKUPS}/{backup}/action", {"os-force_delete": None}).status_code == 403
    record = operator_api.get(f"{BACKUPS}/{backup}/export_record").json()
    assert operator_api.post(f"{BACKUPS}/import_record", record).status_code == 400
    Backup.objects.all().delete()
    assert operator_api.post(f"{BACKUPS}/import_record", record).json()["backup"]["id"] == backup
    reset = {"os-reset_status": {"status": "error"}}
    assert operator_api.post(f"{BACKUPS}/{backup}/action", reset).status_code == 202
    assert operator_api.post(f"{BACKUPS}/{backup}/action", {"os-force_delete": {}}).status_code == 202
    drain()
    assert Backup.objects.count() == 0
