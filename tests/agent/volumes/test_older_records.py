"""An agent refuses commands of records that are older than what it has seen of a volume, also after a restart."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import (
    ConnectVolumeRequest,
    CreateVolumeRequest,
    DeleteVolumeRequest,
    GrowVolumeRequest,
    KnownVolume,
    RestoreVolumeRequest,
    RevertVolumeRequest,
    SnapshotVolumeRequest,
    UnmanageSnapshotRequest,
    UnmanageVolumeRequest,
    VolumeClient,
    VolumeEncryption,
    VolumeSpec,
)
from compute_agent.engine.store import KEEP_REMOVED, StateStore
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.memory import VolumeMemory
from tests.agent.cast import Stage, make_stage, on_stage
from tests.agent.volumes.test_commands import CLIENT, command, make_volumes

OTHER = VolumeClient(attachment_id="a2", host_id="h", local=True)


def known(event: AgentEvent) -> KnownVolume:
    assert event.error_code == "superseded"
    return msgspec.json.decode(event.detail["known"], type=KnownVolume)


async def do(stage: Stage, body: Any) -> AgentEvent:
    return await stage.do(command(body, body.volume.id))


@pytest.mark.parametrize(
    "body",
    [
        lambda spec: ConnectVolumeRequest(volume=spec, clients=[OTHER]),
        lambda spec: ConnectVolumeRequest(volume=spec, clients=[]),
        lambda spec: DeleteVolumeRequest(volume=spec),
        lambda spec: GrowVolumeRequest(volume=spec),
        lambda spec: SnapshotVolumeRequest(volume=spec, snapshot_id="s1"),
        lambda spec: RevertVolumeRequest(volume=spec, snapshot_id="s1"),
        lambda spec: RestoreVolumeRequest(volume=spec, backup_ids=[]),
        lambda spec: UnmanageVolumeRequest(volume=spec, name="left"),
        lambda spec: UnmanageSnapshotRequest(volume=spec, snapshot_id="s1", name="left"),
    ],
)
async def test_an_older_command_is_refused_with_what_is_known(tmp_path: Path, daemons: Daemons, body: Any) -> None:
    volumes, pool, _ = make_volumes(tmp_path, daemons, "fake")
    spec = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool, size_gb=2, version=3)
    async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:
        assert (await do(stage, CreateVolumeRequest(volume=spec))).kind == "finished"
        let_in = ConnectVolumeRequest(volume=replace(spec, version=7), clients=[CLIENT])
        assert (await do(stage, let_in)).kind == "finished"
        refused = known(await do(stage, body(replace(spec, version=6))))
        assert refused == KnownVolume(
            data_id=spec.id, version=7, volume_id=spec.id, pool_id=pool, size_gb=2, clients=[CLIENT]
        )
        assert stage.host.known_volumes() == [refused]
        assert [each.attachments for each in volumes.contents(pool).volumes] == [["a1"]]


async def test_nobody_is_left_out_under_the_same_number(tmp_path: Path, daemons: Daemons) -> None:
    volumes, pool, _ = make_volumes(tmp_path, daemons, "fake")
    spec = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool, size_gb=1, version=3)
    async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:
        await do(stage, CreateVolumeRequest(volume=spec))
        await do(stage, ConnectVolumeRequest(volume=spec, clients=[CLIENT]))
        assert known(await do(stage, ConnectVolumeRequest(volume=spec, clients=[OTHER]))).clients == [CLIENT]
        both = ConnectVolumeRequest(volume=spec, clients=[CLIENT, OTHER])
        assert (await do(stage, both)).kind == "finished"
        newer = ConnectVolumeRequest(volume=replace(spec, version=4), clients=[OTHER])
        assert (await do(stage, newer)).kind == "finished"
        unnumbered = ConnectVolumeRequest(volume=replace(spec, version=0), clients=[])
        assert (await do(stage, unnumbered)).kind == "finished", "of a portal that knows no numbers"


async def test_data_that_was_deleted_is_known_to_be_gone(tmp_path: Path, daemons: Daemons) -> None:
    volumes, pool, _ = make_volumes(tmp_path, daemons, "fake")
    spec = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool, size_gb=1, version=3)
    async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:
        await do(stage, CreateVolumeRequest(volume=spec))
        await do(stage, DeleteVolumeRequest(volume=replace(spec, version=5)))
        gone = KnownVolume(data_id=spec.id, version=5, gone=True)
        assert stage.host.known_volumes() == [gone]
        closed = ConnectVolumeRequest(volume=replace(spec, version=6), clients=[])
        await stage.do(command(closed, spec.id, 2))
        assert stage.host.known_volumes() == [replace(gone, version=6)]


def test_what_was_seen_outlives_the_agent_and_a_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = VolumeSpec(id=str(uuid.uuid4()), pool_id="p", size_gb=1, version=9)
    store = StateStore(tmp_path / "state.db")
    memory = VolumeMemory(store)
    body = ConnectVolumeRequest(volume=spec, clients=[CLIENT])
    memory.begin(body)
    memory.end(spec.id, body)
    store.close()
    store = StateStore(tmp_path / "state.db")
    monkeypatch.setattr("compute_agent.engine.store.KEEP_REMOVED", -KEEP_REMOVED)
    store.prune()
    older = GrowVolumeRequest(volume=replace(spec, version=8))
    refused = VolumeMemory(store).refuses(older)
    assert refused is not None
    assert (refused.version, refused.clients) == (9, [CLIENT])
    store.close()


def test_a_volume_of_before_is_not_reported_to_have_no_clients() -> None:
    memory = VolumeMemory(StateStore(None))
    body = SnapshotVolumeRequest(volume=VolumeSpec(id="v", pool_id="p", size_gb=1, version=2), snapshot_id="s")
    memory.begin(body)
    assert [(each.clients, each.gone) for each in memory.listed()] == [(None, False)]
    memory.end("v", body)
    assert [(each.clients, each.gone) for each in memory.listed()] == [(None, False)]


def test_data_that_was_encrypted_is_reported_as_such_when_its_key_is_not_named() -> None:
    memory, spec = VolumeMemory(StateStore(None)), VolumeSpec(id="v", pool_id="p", size_gb=1, version=2)
    for each in (replace(spec, encryption=VolumeEncryption(key="a2V5")), replace(spec, version=3)):
        body = ConnectVolumeRequest(volume=each, clients=[])
        memory.begin(body)
        memory.end("v", body)
    assert [each.encrypted for each in memory.listed()] == [True]
