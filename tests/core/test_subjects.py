"""Something that is no server is commanded: a made-up kind of subject, from the records to an agent and back."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
from django.db import transaction

from compute_agent.contract.commands import DestroyRequest, PowerRequest
from compute_agent.contract.messages import AgentEvent, Command, Ownership
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.handlers import CommandHandler, SubjectKind
from compute_agent.engine.outcomes import Outcome
from compute_agent.engine.store import SubjectRecord
from provisioning.hosts import commands, liveness, reports, subjects
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.subjects import Reported, Subject, SubjectHandler
from tests.agent.cast import Stage, make_stage, on_stage
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db
VOLUME = "shelf"


@dataclass
class Volume:
    """A service's own record."""

    id: uuid.UUID
    generation: int = 1
    steps: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)


class VolumeHandler(SubjectHandler[Volume]):
    """What the service does with reports."""

    kind = VOLUME

    def __init__(self) -> None:
        self.volumes: dict[uuid.UUID, Volume] = {}
        self.host_id: uuid.UUID | None = None

    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Volume]:
        return {key: self.volumes[key] for key in ids if key in self.volumes}

    def record_steps(self, subject: Volume, steps: Sequence[Reported]) -> None:
        subject.steps += [event.step for event, _ in steps]

    def heartbeat(self, subject: Volume, command: HostCommand, until: datetime) -> None:
        """Nothing waits for a volume until then."""

    def process_end(self, subject: Volume, event: AgentEvent, command: HostCommand) -> None:
        if command.generation == subject.generation:
            subject.ends.append(event.kind)

    def owned_by(self, host_id: uuid.UUID) -> Iterator[Subject]:
        for volume in self.volumes.values():
            yield Subject(VOLUME, volume.id, volume.generation)


class Attach(CommandHandler[PowerRequest]):
    """Stands in for work at a host."""

    async def run(self, context: CommandContext, body: PowerRequest) -> Outcome:
        await context.run_steps([Step("open_disk", lambda: None), Step("export_disk", lambda: None)])
        return Outcome()


class Volumes(SubjectKind):
    """The agent's side of the made-up kind."""

    kind = VOLUME
    handlers = {PowerRequest: Attach()}

    async def sweep(self, record: SubjectRecord) -> bool:
        return True

    def settled(self, subject_id: str) -> None:
        pass


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> VolumeHandler:
    made = VolumeHandler()
    monkeypatch.setattr(subjects.HANDLERS, "_entries", (made, *subjects.HANDLERS))
    return made


@pytest.fixture
def host() -> Host:
    return ScriptedAgent.join("one").host


@pytest.fixture
def volume(handler: VolumeHandler) -> Volume:
    made = Volume(uuid.uuid4())
    handler.volumes[made.id] = made
    return made


def send(host: Host, volume: Volume) -> HostCommand:
    with transaction.atomic():
        return commands.send(host.id, Subject(VOLUME, volume.id, volume.generation), PowerRequest(action="start"), None)


def at_the_host(folder: Path, ownership: Ownership, given: Sequence[Command], *, ends: int = 1) -> list[AgentEvent]:
    """An agent hears what it owns and what is commanded; returns what it says, which nobody records there."""

    def ended(stage: Stage) -> int:
        return sum(event.kind in {"finished", "failed"} for event in stage.said)

    async def live() -> list[AgentEvent]:
        stage = make_stage(folder)
        stage.host._runner.register(Volumes())
        async with on_stage(stage, welcomed=False):
            stage.host.resume_owned(ownership)
            for command in given:
                stage.host.accept(command)
            await stage.until(lambda: ended(stage) >= ends)
            return list(stage.said)

    return asyncio.run(live())


def test_a_volume_gets_its_steps_and_its_end(host: Host, volume: Volume, tmp_path: Path) -> None:
    sent = send(host, volume)
    (given,) = commands.pending(host.id)
    assert (given.subject_kind, given.subject_id, given.generation) == (VOLUME, str(volume.id), 1)
    events = at_the_host(tmp_path, liveness.ownership(host.id), [given])
    assert commands.acknowledge(host.id, [given.id]) == 1
    reports.receive(host.id, events)
    assert (volume.steps, volume.ends) == (["open_disk", "export_disk"], ["finished"])
    sent.refresh_from_db()
    assert sent.finished_at is not None
    assert commands.pending(host.id) == []


def test_a_report_that_was_lost_with_its_link_is_sent_again_and_counts_once(
    host: Host, volume: Volume, tmp_path: Path
) -> None:
    send(host, volume)
    given = commands.pending(host.id)
    lost = at_the_host(tmp_path, liveness.ownership(host.id), given)
    assert commands.pending(host.id), "nothing was acknowledged"
    again = at_the_host(tmp_path, liveness.ownership(host.id), commands.pending(host.id))
    assert [event.seq for event in again] == [event.seq for event in lost if event.kind != "step_started"]
    reports.receive(host.id, again)
    reports.receive(host.id, lost)
    assert (volume.steps, volume.ends) == (["open_disk", "export_disk"], ["finished"])


def test_a_late_report_of_an_older_generation_changes_nothing(host: Host, volume: Volume, tmp_path: Path) -> None:
    send(host, volume)
    late = at_the_host(tmp_path, liveness.ownership(host.id), commands.pending(host.id))
    volume.generation = 2
    commands.withdraw(commands.unfinished(VOLUME, volume.id).filter(generation__lt=2))
    send(host, volume)
    reports.receive(host.id, late)
    assert (volume.steps, volume.ends) == ([], [])
    now = at_the_host(tmp_path, liveness.ownership(host.id), commands.pending(host.id), ends=2)
    reports.receive(host.id, now)
    assert (volume.steps, volume.ends) == (["open_disk", "export_disk"], ["finished"])


def test_a_host_refuses_an_older_generation(host: Host, volume: Volume, tmp_path: Path) -> None:
    send(host, volume)
    volume.generation = 2
    send(host, volume)
    older, newer = commands.pending(host.id)
    events = at_the_host(tmp_path, liveness.ownership(host.id), [newer, older], ends=2)
    ends = {event.command_id: event.error_code for event in events if event.kind in {"finished", "failed"}}
    assert ends == {newer.id: "", older.id: "superseded"}


def test_a_host_speaks_for_no_subject_of_another_kind(host: Host, volume: Volume, handler: VolumeHandler) -> None:
    sent = send(host, volume)
    event = AgentEvent(1, "server", str(volume.id), 1, "finished", str(sent.id))
    unknown = AgentEvent(2, "moon", str(volume.id), 1, "finished", str(sent.id))
    reports.receive(host.id, [event, unknown])
    assert volume.ends == []
    assert len(commands.pending(host.id)) == 1


def test_a_host_that_knows_no_such_subject_says_so(host: Host, volume: Volume, tmp_path: Path) -> None:
    with transaction.atomic():
        commands.send(host.id, Subject(VOLUME, volume.id, 1), DestroyRequest(), None)
    reports.receive(host.id, at_the_host(tmp_path, liveness.ownership(host.id), commands.pending(host.id)))
    assert volume.ends == ["failed"]
