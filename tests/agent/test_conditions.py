"""What a host says of itself: what it lacks, and what it has mended."""

from __future__ import annotations

from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from compute_agent.contract.messages import MOST_REPAIRS
from compute_agent.network.bridges import bridges
from compute_agent.network.host_network import Leased
from tests.agent.cast import build, make_spec, make_stage, on_stage


async def test_what_was_mended_is_in_the_next_audit_which_comes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        network = stage.host._services.network
        stage.host.audit_wanted.clear()
        await stage.host.check()
        assert not stage.host.audit_wanted.is_set()
        monkeypatch.setattr(network, "check", lambda: ["DHCP of network n"])
        for _ in range(MOST_REPAIRS + 1):
            await stage.host.check()
        assert stage.host.audit_wanted.is_set()
        report = await stage.host.audit("127.0.0.1")
        assert [each.what for each in report.repairs] == ["network: DHCP of network n"] * MOST_REPAIRS
        assert report.warnings == []
        monkeypatch.setattr(network, "warnings", lambda: ["It lacks something."])
        assert (await stage.host.audit("127.0.0.1")).warnings == ["It lacks something."]


async def test_addresses_that_guests_take_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        end = await stage.do(build(spec))
        known, unknown = (Leased(uuid, "port-1", "10.20.0.5", held=True) for uuid in (spec.uuid, "nobody"))
        monkeypatch.setattr(stage.host._services.network, "leases", lambda: [unknown, known])
        await stage.host.check()
        await stage.until(lambda: any(event.kind == "lease" for event in stage.said))
        (event,) = [event for event in stage.said if event.kind == "lease"]
        assert (event.subject_id, event.generation) == (spec.uuid, end.generation)
        assert event.detail == {"port_id": "port-1", "address": "10.20.0.5", "held": "true"}


@pytest.mark.parametrize("error", [bridges.ProgramError("no such module"), TimeoutExpired("modprobe", 1)])
def test_a_kernel_without_filters_for_bridges_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(bridges, "FILTERED", tmp_path / "nothing")
    monkeypatch.setattr(bridges, "BRIDGED", ())
    tried: list[tuple[str, ...]] = []

    def modprobe(*command: str) -> bytes:
        tried.append(command)
        raise error

    monkeypatch.setattr(bridges, "run_program", modprobe)
    monkeypatch.setattr(bridges.links, "write_sysctl", lambda *_: None)
    assert bridges.lacks() == [bridges.UNFILTERED]
    assert tried == [("modprobe", "br_netfilter")]
    monkeypatch.setattr(bridges, "run_program", lambda *_: b"")

    def refuse(*_: str) -> None:
        raise bridges.RetryableHostError("no", detail="read-only")

    monkeypatch.setattr(bridges.links, "write_sysctl", refuse)
    assert bridges.lacks() == [bridges.UNFORWARDED]
