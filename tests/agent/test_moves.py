"""A guest that leaves its host: it is stopped only if its disks can be exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent.contract.commands import SendGuestRequest
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import UnsupportedError
from tests.agent.cast import build, make_command, make_spec, make_stage, on_stage


async def test_a_guest_that_cannot_leave_keeps_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(uuid: str) -> None:
        raise UnsupportedError("Its disk is in a pool.")

    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        monkeypatch.setattr(stage.driver, "check_may_leave", refuse)
        end = await stage.do(make_command(SendGuestRequest(target="there", timeout=1), spec.uuid))
        assert (end.kind, end.message) == ("failed", "Its disk is in a pool.")
        assert stage.driver.power_state(spec.uuid) == PowerState.RUNNING
        monkeypatch.undo()
        end = await stage.do(make_command(SendGuestRequest(target="there", timeout=1), spec.uuid))
        assert (end.kind, end.power_state) == ("finished", PowerState.SHUTDOWN)
