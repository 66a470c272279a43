"""Snapshots at the host: copied, sent until the portal has them, given up when told so, and nothing is left lying."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from compute_agent.contract.commands import VARIABLES, DestroyRequest, RefreshPortsRequest, SnapshotRequest
from compute_agent.contract.firmware_state import from_property
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.engine.threads import AfterStep, Threads
from compute_agent.host import Host
from compute_agent.link import image_send, portal_requests
from compute_agent.link.credential import Credential, store
from compute_agent.link.dial import here
from compute_agent.link.firmware_link import FirmwareLink
from compute_agent.link.image_send import FOLDER, ImageSender
from compute_agent.network.fake import FakeNetwork
from compute_agent.servers.services import HostServices
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.fake.images import FakeImageCache
from tests.agent.cast import Gate, Stage, build, make_command, make_spec, make_stage, on_stage, stopped
from tests.agent.watched_driver import WatchedDriver

IMAGE = "9c000000-0000-4000-8000-0000000000aa"
STEPS = ["copy_disk", "upload_image"]
QCOW2 = b"QFI\xfb"


@dataclass
class Takes:
    """A portal that takes images: answers with ``answers`` in turn, then with 204."""

    answers: list[tuple[int, str]] = field(default_factory=list)
    early: bool = False
    """Answer before the body has come."""
    got: list[tuple[str, str | None, int, bytes]] = field(default_factory=list)
    """Path, credential, length and first bytes of every body that came whole."""
    kept: dict[str, bytes] = field(default_factory=dict)
    """The bodies by path, which it gives back."""
    tries: int = 0
    server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.server_port}"

    def listen(self, port: int = 0) -> None:
        portal = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                portal.take(self)

            def do_GET(self) -> None:
                portal.give(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        self.tries += 1
        status, text = self.answers.pop(0) if self.answers else (204, "")
        if not self.early:
            length = int(request.headers["Content-Length"])
            body = request.rfile.read(length)
            self.got.append((request.path, request.headers["Authorization"], len(body), body[:4]))
            self.kept[request.path] = body
        self.answer(request, status, text.encode())

    def give(self, request: BaseHTTPRequestHandler) -> None:
        body = self.kept.get(request.path)
        self.answer(request, *((404, b"Not here.") if body is None else (200, body)))

    @staticmethod
    def answer(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        request.send_response(status)
        request.send_header("Content-Type", "text/plain")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def close(self) -> int:
        """Go away; returns the port."""
        assert self.server is not None
        port = self.server.server_port
        self.server.shutdown()
        self.server.server_close()
        return port


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Takes]:
    monkeypatch.setattr(image_send, "PAUSE", 0.02)
    monkeypatch.setattr(image_send, "PAUSE_MAX", 0.05)
    monkeypatch.setattr(image_send, "POLL", 0.01)
    monkeypatch.setattr(portal_requests, "PAUSE", 0.02)
    takes = Takes()
    takes.listen()
    yield takes
    with contextlib.suppress(OSError):
        takes.close()


def stage_of(
    folder: Path, portal: Takes, *, driver: WatchedDriver | None = None, after_step: AfterStep | None = None
) -> Stage:
    store(folder, Credential("host-1", "secret-1", enrolled=True))
    settings = AgentSettings(host="host-1", state_dir=folder, portal_url=portal.url)
    driver = driver or WatchedDriver(folder)
    network, images, threads = FakeNetwork(), FakeImageCache(), Threads(3)
    sender = ImageSender(settings, here)
    parts = HostServices(
        driver, network, images, threads, boot_timeout=2.0, after_step=after_step, outgoing=sender,
        firmware=FirmwareLink(settings, here),
    )  # fmt: skip
    return Stage(Host("host-1", parts, folder / "agent.sqlite3"), driver, network, images, threads)


@contextlib.asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[str]:
    """A host with one guest that runs; gives the guest's uuid."""
    async with on_stage(stage):
        spec = make_spec()
        assert (await stage.do(build(spec))).kind == "finished"
        yield spec.uuid


def snapshot(uuid: str, *, stop: bool = False, **seconds: float) -> Command:
    return make_command(SnapshotRequest(image_id=IMAGE, stop=stop, timeout=1), uuid, **seconds)


def unsent(folder: Path) -> list[str]:
    return [path.name for path in (folder / FOLDER).glob("*")]


async def until(ready: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not ready():
            await asyncio.sleep(0.01)


async def test_the_disk_goes_to_the_portal_and_the_guest_goes_on(
    tmp_path: Path, portal: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_of(tmp_path, portal)
    async with running(stage) as uuid:
        command = snapshot(uuid)
        end = await stage.do(command)
        assert (end.kind, end.power_state) == ("finished", PowerState.RUNNING)
        assert stage.steps(command) == STEPS
        ((path, credential, size, head),) = portal.got
        assert (path, credential) == (f"/agent/v1/instances/{uuid}/images/{IMAGE}", "Bearer secret-1")
        assert (head, size) == (QCOW2, 262_144)
        assert unsent(tmp_path) == []
        assert end.detail == {}
        monkeypatch.setattr(stage.driver, "uefi_variables", lambda _: {"uefi": b"of the guest"})
        assert from_property((await stage.do(snapshot(uuid))).detail[VARIABLES]) == {"uefi": b"of the guest"}


async def test_a_guest_is_stopped_first_when_that_is_requested(tmp_path: Path, portal: Takes) -> None:
    stage = stage_of(tmp_path, portal)
    async with running(stage) as uuid:
        command = snapshot(uuid, stop=True)
        assert (await stage.do(command)).power_state == PowerState.SHUTDOWN
        assert stage.steps(command) == ["stop_guest", *STEPS]


async def test_a_portal_that_is_away_or_busy_is_tried_again(tmp_path: Path, portal: Takes) -> None:
    portal.answers = [(503, ""), (409, "Another upload goes on."), (401, "")]
    stage = stage_of(tmp_path, portal)
    async with running(stage) as uuid:
        port = portal.close()
        command = snapshot(uuid)
        stage.host.accept(command)
        await until(lambda: stage.steps(command) == STEPS[:1])
        await asyncio.sleep(0.05)
        assert not stage.ends(command)
        portal.listen(port)
        assert (await stage.end_of(command)).kind == "finished"
        assert portal.tries == 4


@pytest.mark.parametrize("early", [False, True], ids=["after the data", "before the data"])
async def test_what_the_portal_will_never_take_ends_the_command_with_its_reason(
    tmp_path: Path, portal: Takes, early: bool
) -> None:
    portal.answers, portal.early = [(413, "The image is larger than it may be.")], early
    stage = stage_of(tmp_path, portal)
    async with running(stage) as uuid:
        end = await stage.do(snapshot(uuid, stop=True))
        assert (end.kind, end.error_code) == ("failed", "image_send_failed")
        assert end.message == "The image is larger than it may be."
        assert portal.tries == 1
        assert unsent(tmp_path) == []
        assert stage.driver.power_state(uuid) == PowerState.RUNNING  # it was stopped for nothing


async def test_a_copy_that_fails_leaves_the_guest_as_it_was(tmp_path: Path, portal: Takes) -> None:
    stage = stage_of(tmp_path, portal, driver=NoRoom(tmp_path))
    async with running(stage) as uuid:
        end = await stage.do(snapshot(uuid, stop=True))
        assert (end.kind, end.message) == ("failed", "The host has no space for a copy of the disk.")
        assert portal.tries == 0
        assert unsent(tmp_path) == []
        assert stage.driver.power_state(uuid) == PowerState.RUNNING


class NoRoom(WatchedDriver):
    """A host without room for copies, that leaves what it has begun."""

    def snapshot(self, uuid: str, target: Path, disk_format: str, stopped: Stopped = never) -> None:
        target.write_bytes(b"half")
        raise RetryableHostError("The host has no space for a copy of the disk.")


async def test_a_delete_ends_a_snapshot_whose_portal_is_away(tmp_path: Path, portal: Takes) -> None:
    stage = stage_of(tmp_path, portal)
    async with running(stage) as uuid:
        portal.close()
        command, end_it = snapshot(uuid, stop=True), make_command(DestroyRequest(), uuid, 2)
        stage.host.accept(command)
        await until(lambda: len(stage.steps(command)) == 2)
        stage.host.accept(end_it)
        assert (await stage.end_of(end_it)).kind == "finished"
        assert stage.ends(command)[0].error_code == "cancelled"
        assert stage.is_clean()
        assert unsent(tmp_path) == []


async def test_a_snapshot_is_given_up_at_its_deadline(tmp_path: Path, portal: Takes) -> None:
    stage = stage_of(tmp_path, portal)
    async with running(stage) as uuid:
        portal.close()
        end = await stage.do(snapshot(uuid, total=0.15))
        assert (end.kind, end.error_code) == ("failed", "stopped")
        assert unsent(tmp_path) == []
        assert stage.driver.power_state(uuid) == PowerState.RUNNING


@pytest.mark.parametrize("step", ["stop_guest", *STEPS])
async def test_a_snapshot_broken_off_after_any_step_is_made_by_the_next_process(
    tmp_path: Path, portal: Takes, step: str
) -> None:
    gate = Gate(step)
    stage = stage_of(tmp_path, portal, after_step=gate)
    async with running(stage) as uuid:
        command = snapshot(uuid, stop=True)
        stage.host.accept(command)
        await gate.until_reached()
        await stopped(stage, gate)
    assert not stage.ends(command)
    (tmp_path / FOLDER / "of-a-process-that-was-killed").write_bytes(b"half")
    after = stage_of(tmp_path, portal)
    async with on_stage(after):
        assert "of-a-process-that-was-killed" not in unsent(tmp_path)
        end = await after.end_of(command)
        assert (end.kind, end.power_state) == ("finished", PowerState.SHUTDOWN)
    assert unsent(tmp_path) == []
    assert {path for path, *_ in portal.got} == {f"/agent/v1/instances/{command.subject_id}/images/{IMAGE}"}


@pytest.mark.slow
async def test_commands_that_make_no_disk_do_not_change_what_the_disk_lies_upon(tmp_path: Path) -> None:
    spec = make_spec()
    renamed = make_spec(spec.uuid, number=2)
    other = type(spec.image)(id="other", name="o", disk_format="raw", size=1, hash_algo="md5", hash_value="")
    body = RefreshPortsRequest(instance=type(spec)(**{**as_fields(renamed), "image": other}))
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(make_command(body, spec.uuid))
        records = stage.host.servers.records
        assert records.specs()[spec.uuid].ports == [*renamed.ports, *spec.ports], "it keeps what nobody took out"
        assert records.images() == {spec.image.id}


def as_fields(spec: object) -> dict[str, object]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}  # type: ignore[attr-defined]
