"""What a host has that none of its guests accounts for, and guests that somebody has removed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent.contract.messages import MOST_LEFTOVERS, Leftover, ResourceAudit
from compute_agent.network.fake import FakeNetwork
from compute_agent.virt.errors import RetryableHostError
from tests.agent.cast import Gate, Stage, build, destroy, make_spec, make_stage, on_stage, power
from tests.agent.watched_driver import WatchedDriver


async def reported_leftovers(stage: Stage) -> set[tuple[str, str, str]]:
    report = await stage.host.audit("127.0.0.1")
    assert report.leftovers is not None
    return {(each.kind, each.name, each.subject_id) for each in report.leftovers}


def fake(stage: Stage) -> WatchedDriver:
    assert isinstance(stage.driver, WatchedDriver)
    return stage.driver


async def test_guests_account_for_what_they_have(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        for number in (1, 2):
            await stage.do(build(make_spec(number=number)))
        assert await reported_leftovers(stage) == set()


async def test_what_is_left_of_a_guest_is_reported(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        fake(stage).lose_domain(spec.uuid)
        assert await reported_leftovers(stage) == {(kind, spec.uuid, spec.uuid) for kind in ("disk", "seed", "plug")}
        await stage.do(destroy(spec.uuid))
        assert await reported_leftovers(stage) == set()


async def test_a_destroy_removes_what_an_agent_without_memory_finds(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        fake(stage).create_disk(spec, None)
        assert await reported_leftovers(stage) == {("disk", spec.uuid, spec.uuid)}
        await stage.do(destroy(spec.uuid))
        assert await reported_leftovers(stage) == set()


async def test_guests_of_others_are_named_and_left_alone(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        fake(stage).foreign.add("somebodys-vm")
        assert await reported_leftovers(stage) == {("foreign_domain", "somebodys-vm", "")}


async def test_what_is_left_bears_the_newest_generation_that_was_seen(tmp_path: Path) -> None:
    spec, unknown = make_spec(), make_spec(number=2)
    async with on_stage(make_stage(tmp_path)) as stage:
        command = build(spec)
        await stage.do(command)
        fake(stage).lose_domain(spec.uuid)
        fake(stage).create_disk(unknown, None)
        report = await stage.host.audit("127.0.0.1")
        seen = {each.subject_id: each.generation for each in report.leftovers or ()}
        assert seen == {spec.uuid: command.generation, unknown.uuid: None}


async def test_what_is_being_built_is_not_left_over(tmp_path: Path) -> None:
    gate = Gate("create_seed")
    command = build(make_spec())
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        stage.host.accept(command)
        await gate.until_reached()
        assert await reported_leftovers(stage) == set()
        gate.open.set()
        await stage.end_of(command)


async def test_a_guest_whose_description_is_lost_is_reported(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    for name in ("agent.sqlite3", "agent.sqlite3-wal", "agent.sqlite3-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    async with on_stage(make_stage(tmp_path)) as stage:
        assert ("domain", spec.uuid, spec.uuid) in await reported_leftovers(stage)


async def test_a_network_that_cannot_say_keeps_the_audit_from_saying_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[Leftover]:
        raise RetryableHostError("It cannot be listed.")

    monkeypatch.setattr(FakeNetwork, "leftovers", broken)
    async with on_stage(make_stage(tmp_path)) as stage:
        report = await stage.host.audit("127.0.0.1")
        assert isinstance(report, ResourceAudit)
        assert report.leftovers is None


async def test_the_list_is_bounded(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        fake(stage).foreign.update(f"vm-{number}" for number in range(2 * MOST_LEFTOVERS))
        assert len(await reported_leftovers(stage)) == MOST_LEFTOVERS


# ----- removed by hand ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["start", "reboot_hard", "resume"])
async def test_a_guest_that_was_removed_by_hand_is_made_again_from_its_disk(tmp_path: Path, action: str) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        fake(stage).lose_domain(spec.uuid)
        end = await stage.do(power(spec.uuid, action))
        assert (end.kind, end.power_state) == ("finished", 1)
        assert [(guest.uuid, guest.attempt) for guest in stage.driver.guests()] == [(spec.uuid, 1)]


async def test_a_guest_without_a_disk_cannot_be_started_and_says_what_helps(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        stage.driver.destroy(spec.uuid)
        end = await stage.do(power(spec.uuid, "start"))
        assert (end.kind, end.error_code) == ("failed", "instance_not_found")
        assert end.message == (
            "The server's guest and its disk no longer exist on its host. Rebuild the server, or delete it."
        )
