"""UEFI variables and TPMs on their way between a host and the portal: packed, verified, and in the guest before it
starts.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from pathlib import Path

import msgspec
import pytest

from compute_agent.contract import firmware_state
from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import FIRMWARE_STATES, BuildRequest, DestroyRequest, SnapshotRequest
from compute_agent.contract.firmware_state import FirmwareState, from_property, pack, to_property, unpack
from compute_agent.contract.messages import OLDEST_CONTRACT, Command
from compute_agent.contract.power import PowerState
from tests.agent.cast import build, make_command, make_spec, on_stage
from tests.agent.test_snapshot import IMAGE, STEPS, Takes, portal, stage_of
from tests.support.tables import each_row

__all__ = ["portal"]
STATE = FirmwareState(variables={"uefi": b"entries", "secure": b"keys"}, tpm={"tpm2-00.permall": b"x"}, tpm_key="ab")


def packed(content: object) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(content))


def test_a_state_comes_back_as_it_was_and_a_large_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpack(pack(STATE)) == STATE
    assert unpack(pack(FirmwareState())) == FirmwareState()
    monkeypatch.setattr(firmware_state, "MOST_BYTES", 8)
    with pytest.raises(ValueError, match="KiB"):
        pack(STATE)


@each_row("data", [
    b"", b"junk", pack(STATE)[:-1], packed([]), packed({"variables": {"other": b""}}), packed({"tpm": {"../x": b""}}),
    packed({"tpm": {".lock": b""}}), packed({"tpm_key": 1}), zlib.compress(bytes(17 << 20)),
])  # fmt: skip
def test_a_state_that_is_not_one_is_refused(data: bytes) -> None:
    assert unpack(data) is None
    assert from_property(base64.b64encode(data).decode()) == {}


def test_images_have_variables_alone() -> None:
    assert from_property(to_property(STATE.variables)) == STATE.variables
    assert from_property(base64.b64encode(pack(STATE)).decode()) == STATE.variables
    assert to_property({}) == ""
    noise = hashlib.shake_128(b"").digest(40_000)
    assert to_property({"uefi": noise}) == ""
    assert from_property(base64.b64encode(pack(FirmwareState(variables={"uefi": noise}))).decode()) == {}
    assert from_property("ü") == {}


def test_agents_that_know_no_states_get_no_such_commands() -> None:
    spec, oldest = make_spec(), OLDEST_CONTRACT
    assert BuildRequest(instance=spec).needed_version() <= oldest
    assert SnapshotRequest(image_id=IMAGE, stop=True).needed_version() <= oldest
    for body in (
        BuildRequest(instance=spec, firmware_state="00"),
        SnapshotRequest(image_id=IMAGE, firmware_state=True),
        SnapshotRequest(image_id=""),
    ):
        assert body.needed_version() == FIRMWARE_STATES > oldest


def spec_with_firmware() -> InstanceSpec:
    spec = make_spec()
    requested = {"hw_firmware_type": "uefi", "hw_tpm_version": "2.0"}
    return msgspec.structs.replace(spec, image=msgspec.structs.replace(spec.image, properties=requested))


def shelve(uuid: str, image_id: str = "") -> Command:
    return make_command(SnapshotRequest(image_id=image_id, stop=True, timeout=1, firmware_state=True), uuid)


@pytest.mark.parametrize("image_id", ["", IMAGE], ids=["volume-backed", "image-backed"])
async def test_a_shelved_guest_is_stopped_and_its_state_sent_and_brought_back(
    tmp_path: Path, portal: Takes, image_id: str
) -> None:
    spec = spec_with_firmware()
    async with on_stage(stage_of(tmp_path, portal)) as stage:
        await stage.do(build(spec))
        command = shelve(spec.uuid, image_id)
        end = await stage.do(command)
        assert (end.kind, end.power_state, end.detail) == ("finished", PowerState.SHUTDOWN, {})
        assert stage.steps(command) == ["stop_guest", *(STEPS if image_id else []), "upload_firmware"]
        state = stage.driver.firmware_state(spec.uuid)
        assert (set(state.variables), len(state.tpm_key)) == ({"uefi"}, 64)
        path, body = list(portal.kept.items())[-1]
        digest = hashlib.sha256(body).hexdigest()
        assert path == f"/agent/v1/instances/{spec.uuid}/firmware/{digest}"
        assert unpack(body) == state
        await stage.do(make_command(DestroyRequest(), spec.uuid, 2))
        again = make_command(BuildRequest(instance=spec, firmware_state=digest), spec.uuid, 3)
        assert (await stage.do(again)).kind == "finished"
        stage.driver.stop(spec.uuid, 0)
        assert stage.driver.firmware_state(spec.uuid) == state


async def test_a_state_that_the_portal_refuses_ends_the_shelving_with_its_reason(tmp_path: Path, portal: Takes) -> None:
    portal.answers = [(503, ""), (413, "The firmware state has more than 1024 KiB.")]
    spec = spec_with_firmware()
    async with on_stage(stage_of(tmp_path, portal)) as stage:
        await stage.do(build(spec))
        end = await stage.do(shelve(spec.uuid))
        assert (end.kind, end.error_code) == ("failed", "firmware_transfer_failed")
        assert end.message == "The firmware state has more than 1024 KiB."
        assert portal.tries == 2
        assert stage.driver.power_state(spec.uuid) == PowerState.RUNNING  # it was stopped for nothing


async def test_a_state_that_is_too_large_is_not_sent(
    tmp_path: Path, portal: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firmware_state, "MOST_BYTES", 8)
    spec = spec_with_firmware()
    async with on_stage(stage_of(tmp_path, portal)) as stage:
        await stage.do(build(spec))
        end = await stage.do(shelve(spec.uuid))
        assert (end.kind, end.message) == ("failed", firmware_state.TOO_LARGE)
        assert portal.tries == 0


@pytest.mark.parametrize(("body", "whole", "reason"), [
    (None, pack(STATE), "Not here."),
    (pack(STATE)[:-1], pack(STATE), "The server's firmware state does not match its digest."),
    (b"junk", b"junk", "The server's firmware state is not valid."),
])  # fmt: skip
async def test_no_guest_starts_without_its_state(
    tmp_path: Path, portal: Takes, body: bytes | None, whole: bytes, reason: str
) -> None:
    digest = hashlib.sha256(whole).hexdigest()
    spec = spec_with_firmware()
    if body is not None:
        portal.kept[f"/agent/v1/instances/{spec.uuid}/firmware/{digest}"] = body
    async with on_stage(stage_of(tmp_path, portal)) as stage:
        end = await stage.do(make_command(BuildRequest(instance=spec, firmware_state=digest), spec.uuid))
        assert (end.kind, end.message, end.retryable) == ("failed", reason, True)
        assert stage.is_clean()
