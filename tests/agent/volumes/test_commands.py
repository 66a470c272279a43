"""Commands for volumes, on a simulated pool and on a real one."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compute_agent.contract.build import GuestDisk, ImageRef, VolumeConnection
from compute_agent.contract.calls import CallError
from compute_agent.contract.commands import AttachVolumeRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.volume import (
    VOLUME,
    VOLUME_COPY,
    ConnectVolumeRequest,
    CreateVolumeRequest,
    DeleteSnapshotRequest,
    DeleteVolumeRequest,
    FetchVolumeRequest,
    GrowVolumeRequest,
    ManageSnapshotRequest,
    PoolContents,
    PoolContentsCall,
    ReimageVolumeRequest,
    RevertVolumeRequest,
    SnapshotVolumeRequest,
    UnmanageSnapshotRequest,
    UploadVolumeRequest,
    VolumeClient,
    VolumeSource,
    VolumeSpec,
)
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.volumes import drivers, kind
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.cast import build, destroy, make_command, make_spec, make_stage, on_stage
from tests.agent.volumes.conftest import qemu_io

IMAGE = ImageRef(id="i", name="i", disk_format="raw", size=1, hash_algo="sha512", hash_value="00" * 64)
CLIENT = VolumeClient(attachment_id="a1", host_id="h", local=True)


class Outgoing:
    """Keeps what is sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: dict[str, tuple[str, int, bytes]] = {}

    def file(self, name: str) -> Any:
        return _Place(self.folder / name)

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Any) -> None:
        with path.open("rb") as file:
            self.sent[image_id] = (instance_uuid, path.stat().st_size, file.read(65537))


class _Place:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)


def reach(detail: dict[str, str]) -> str:
    connection = msgspec.json.decode(detail["connection"], type=VolumeConnection)
    return f"nbd+unix:///{connection.export}?socket={connection.socket}"


def make_volumes(tmp_path: Path, daemons: Daemons, driver: str, options: str = "") -> tuple[Volumes, str, Outgoing]:
    outgoing = Outgoing(tmp_path)
    made = drivers.make(PoolSettings("local", driver, f"{tmp_path / 'pool'}{options}", "host-1"))
    volumes = Volumes([made], daemons, Outside(FakeImageCache(), outgoing))
    (state,) = volumes.states()
    return volumes, state.id, outgoing


def command(body: Any, subject: str, generation: int = 1, kind: str = VOLUME) -> Command:
    return Command(id=str(uuid.uuid4()), subject_kind=kind, subject_id=subject, generation=generation, body=body)


@pytest.mark.parametrize("driver", ["fake", "nbd"])
async def test_a_volume_through_its_commands(tmp_path: Path, daemons: Daemons, driver: str) -> None:
    volumes, pool, _ = make_volumes(tmp_path, daemons, driver)
    spec = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool, size_gb=1)
    async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:

        async def do(body: Any, volume: VolumeSpec = spec, kind: str = VOLUME, subject: str = "") -> dict[str, str]:
            end = await stage.do(command(body, subject or volume.id, kind=kind))
            assert (end.kind, end.message) == ("finished", "")
            return end.detail

        async def contents() -> dict[str, Any]:
            answer = await stage.host.answer(PoolContentsCall(pool_id=pool))
            assert isinstance(answer, PoolContents)
            return {each.id: (each.snapshots, each.attachments, each.daemon) for each in answer.volumes}

        await do(CreateVolumeRequest(volume=spec))
        detail = await do(ConnectVolumeRequest(volume=spec, clients=[CLIENT]))
        first = msgspec.json.decode(detail["connection"], type=VolumeConnection)
        assert await do(ConnectVolumeRequest(volume=spec, clients=[CLIENT])) == detail
        await do(SnapshotVolumeRequest(volume=spec, snapshot_id="s1"))
        assert await contents() == {spec.id: (["s1"], ["a1"], True)}
        for _ in range(2):
            await do(UnmanageSnapshotRequest(volume=spec, snapshot_id="s1", name="left"))
        assert [each.unmanaged for each in volumes.contents(pool).volumes] == [{"left": 1 << 30}]
        for _ in range(2):
            await do(ManageSnapshotRequest(volume=spec, snapshot_id="s1", name="left"))
        assert await contents() == {spec.id: (["s1"], ["a1"], True)}
        larger = msgspec.structs.replace(spec, size_gb=2)
        grown = msgspec.json.decode((await do(GrowVolumeRequest(volume=larger)))["connection"], type=VolumeConnection)
        assert grown.export != first.export
        assert grown.socket == first.socket
        clone = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool, size_gb=2)
        await do(CreateVolumeRequest(volume=clone, source=VolumeSource(volume_id=spec.id)), clone)
        assert await do(ConnectVolumeRequest(volume=larger, clients=[])) == {}
        await do(RevertVolumeRequest(volume=larger, snapshot_id="s1"))
        await do(DeleteSnapshotRequest(volume=larger, snapshot_id="s1"))
        await do(ReimageVolumeRequest(volume=larger, image=IMAGE))
        kept = []
        for volume in (spec, spec, clone):
            end = await stage.do(command(DeleteVolumeRequest(volume=volume), volume.id, generation=2))
            assert end.kind == "finished"
            kept.append(int(end.detail.get("kept", 0)) > 0)
        assert kept == ([False] * 3 if driver == "fake" else [True, True, False]), (
            "the clone needs the first one's data"
        )
        assert await contents() == {}
        report = await stage.host.audit("192.0.2.1")
        assert report.pools is not None
        assert [(each.id, each.driver, each.warning, each.kept) for each in report.pools] == [(pool, driver, "", {})]
    assert daemons.descriptions() == []


async def test_what_fails_is_reported_and_leaves_the_volume(tmp_path: Path, daemons: Daemons) -> None:
    volumes, pool, _ = make_volumes(tmp_path, daemons, "fake", "?fault=snapshot:retryable")
    spec = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool, size_gb=1)
    async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:
        made = CreateVolumeRequest(volume=spec, source=VolumeSource(image=IMAGE))
        assert (await stage.do(command(made, spec.id))).kind == "finished"
        end = await stage.do(command(SnapshotVolumeRequest(volume=spec, snapshot_id="s"), spec.id))
        assert (end.kind, end.error_code, end.retryable) == ("failed", "host_failed", True)
        elsewhere = msgspec.structs.replace(spec, pool_id=str(uuid.uuid4()))
        end = await stage.do(command(GrowVolumeRequest(volume=elsewhere), spec.id))
        assert (end.error_code, end.retryable) == ("pool_unavailable", True)
        answer = await stage.host.answer(PoolContentsCall(pool_id="nobody's"))
        assert isinstance(answer, CallError)
        assert [each.id for each in volumes.contents(pool).volumes] == [spec.id]


@pytest.mark.slow
async def test_copies_of_an_open_volume_have_its_data(tmp_path: Path, daemons: Daemons) -> None:
    volumes, pool, outgoing = make_volumes(tmp_path, daemons, "nbd")
    spec, copy = (VolumeSpec(id=str(uuid.uuid4()), pool_id=pool, size_gb=1) for _ in range(2))
    image = str(uuid.uuid4())
    async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:

        async def do(body: Any, volume: VolumeSpec, kind: str = VOLUME, subject: str = "") -> dict[str, str]:
            end = await stage.do(command(body, subject or volume.id, kind=kind))
            assert (end.kind, end.message) == ("finished", "")
            return end.detail

        await do(CreateVolumeRequest(volume=spec), spec)
        reader = msgspec.structs.replace(CLIENT, attachment_id=copy.id)
        detail = await do(ConnectVolumeRequest(volume=spec, clients=[reader]), spec)
        qemu_io(reach(detail), "write -P 9 0 65536")
        upload = UploadVolumeRequest(volume=spec, image_id=image, disk_format="raw")
        await do(upload, spec, VOLUME_COPY, image)
        subject, size, head = outgoing.sent[image]
        assert (subject, size, head) == (image, 1 << 30, b"\x09" * 65536 + b"\x00")
        origin = msgspec.json.decode(detail["connection"], type=VolumeConnection)
        await do(FetchVolumeRequest(volume=copy, origin=origin), copy)
        there = await do(ConnectVolumeRequest(volume=copy, clients=[CLIENT]), copy)
        output = qemu_io(reach(there), "read -P 9 0 65536")
        assert "failed" not in output
        assert "read 65536" in output
        assert volumes.contents(pool).volumes[0].snapshots == []


async def test_a_volume_that_a_guest_of_the_host_runs_on_is_not_deleted(
    tmp_path: Path, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the portal believes; one whose guest is about to end is deleted as soon as it has ended."""
    monkeypatch.setattr(kind, "LETS_GO_WITHIN", 0.05)
    monkeypatch.setattr(kind, "LOOK_EVERY", 0.01)
    volumes, pool, _ = make_volumes(tmp_path, daemons, "fake")
    spec, server = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool, size_gb=1), make_spec()
    async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:
        assert (await stage.do(command(CreateVolumeRequest(volume=spec), spec.id))).kind == "finished"
        end = await stage.do(command(ConnectVolumeRequest(volume=spec, clients=[CLIENT]), spec.id))
        connection = msgspec.json.decode(end.detail["connection"], type=VolumeConnection)
        disk = GuestDisk(id=str(uuid.uuid4()), attachment_id="a1", size_gb=1, connection=connection)
        has_it = msgspec.structs.replace(server, volumes=[disk])
        await stage.do(build(server))
        attach = AttachVolumeRequest(instance=has_it, disk=disk)
        assert (await stage.do(make_command(attach, server.uuid))).kind == "finished"
        assert stage.driver.open_exports() == {connection.export}
        end = await stage.do(command(DeleteVolumeRequest(volume=spec), spec.id, generation=2))
        assert (end.kind, end.error_code, end.retryable) == ("failed", "volume_in_use", True)
        assert [each.id for each in volumes.contents(pool).volumes] == [spec.id]
        assert volumes.contents(pool).volumes[0].attachments == ["a1"], "it is still served"
        await stage.do(destroy(server.uuid))
        end = await stage.do(command(DeleteVolumeRequest(volume=spec), spec.id, generation=3))
        assert end.kind == "finished"
        assert volumes.contents(pool).volumes == []
