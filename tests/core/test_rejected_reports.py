"""A report that cannot be dealt with is kept and tried again, and nobody calls its server broken meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute.actions.power import Stop
from provisioning.compute.models import Instance
from provisioning.compute.upkeep import reaper
from provisioning.compute.wiring import server_subjects
from provisioning.doctor.examinations.examination import examine, treat
from provisioning.hosts import rejected, reports
from provisioning.hosts.models import HostCommand, RejectedReport
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent


class Broken:
    """The processing of the ends of commands, which fails until it is repaired."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.calls = 0
        monkeypatch.setattr(server_subjects.reports, "process_end", self.fail)

    def fail(self, *_: object) -> None:
        self.calls += 1
        raise ZeroDivisionError("no such thing\n")

    def repair(self) -> None:
        self._patch.undo()


def stopping(cloud: Cloud, caller: RequestContext) -> tuple[Instance, ScriptedAgent]:
    agent = cloud.add_host("kelvin")
    row = cloud.launch(caller)
    cloud.run()
    Stop.begin(caller, row.id)
    return row, agent


def overdue(row: Instance) -> None:
    Instance.objects.filter(id=row.id).update(task_deadline=timezone.now() - timedelta(seconds=1))


def due() -> None:
    RejectedReport.objects.update(due_at=timezone.now())


def test_it_is_kept_and_dealt_with_later(cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch) -> None:
    row, agent = stopping(cloud, alice)
    broken = Broken(monkeypatch)
    agent.work()
    (kept,) = RejectedReport.objects.all()
    assert (kept.host_id, kept.subject_kind, kept.subject_id) == (agent.host.id, "server", row.id)
    assert (kept.generation, kept.kind, kept.tries) == (row.attempt, "finished", 1)
    assert "ZeroDivisionError" in kept.error
    assert kept.error.isprintable()
    broken.repair()
    reports.try_again()
    assert RejectedReport.objects.exists(), "its time has not come"
    due()
    reports.try_again()
    assert not RejectedReport.objects.exists()
    assert (cloud.fresh(row).vm_state, cloud.fresh(row).task_state) == ("stopped", None)


def test_the_others_of_a_frame_are_not_held_up(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, agent = stopping(cloud, alice)
    broken = Broken(monkeypatch)
    agent.work()
    broken.repair()
    agent.repeat_everything()
    assert cloud.fresh(row).vm_state == "stopped", "the same report, sent again, is dealt with"
    due()
    reports.try_again()
    assert not RejectedReport.objects.exists(), "what has been dealt with meanwhile changes nothing"
    assert cloud.fresh(row).vm_state == "stopped"


@pytest.mark.doctor_finds("rejected_reports")
def test_one_that_fails_does_not_undo_another_of_its_frame(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = cloud.add_host("kelvin")
    row, other = cloud.launch(alice), cloud.launch(alice)
    cloud.run()
    for each in (row, other):
        Stop.begin(alice, each.id)
    process_end = server_subjects.reports.process_end

    def fail_for_one(subject: Instance, *notified: Any) -> None:
        process_end(subject, *notified)
        if subject.id == row.id:
            raise ZeroDivisionError

    monkeypatch.setattr(server_subjects.reports, "process_end", fail_for_one)
    ended = sorted(agent.take(), key=lambda command: command.subject_id != str(row.id))
    agent.report_together(ended, "finished", power_state=PowerState.SHUTDOWN)
    assert cloud.fresh(other).vm_state == "stopped"
    assert (cloud.fresh(row).vm_state, cloud.fresh(row).task_state) == ("active", "powering-off")
    assert RejectedReport.objects.get().subject_id == row.id


def test_the_reaper_waits_while_it_is_tried_again(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, agent = stopping(cloud, alice)
    broken = Broken(monkeypatch)
    agent.work()
    overdue(row)
    reaper.reap()
    assert cloud.fresh(row).task_state == "powering-off"
    assert HostCommand.objects.filter(finished_at=None).count() == 1
    broken.repair()
    due()
    reports.try_again()
    assert cloud.fresh(row).vm_state == "stopped"


def test_a_build_that_went_well_is_not_repeated_elsewhere(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = cloud.add_host("kelvin")
    row = cloud.launch(alice)
    drain()
    broken = Broken(monkeypatch)
    agent.work()
    overdue(row)
    reaper.reap()
    assert (cloud.fresh(row).task_state, cloud.fresh(row).attempt) == ("spawning", 1)
    broken.repair()
    due()
    reports.try_again()
    assert cloud.fresh(row).vm_state == "active"


@pytest.mark.slow
@pytest.mark.doctor_finds("rejected_reports")
def test_it_is_given_up_in_the_end_and_the_task_with_it(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, agent = stopping(cloud, alice)
    broken = Broken(monkeypatch)
    agent.work()
    broken.calls = RejectedReport.objects.get().tries
    for _ in range(rejected.MOST_TRIES + 3):
        due()
        reports.try_again()
    assert broken.calls == rejected.MOST_TRIES
    kept = RejectedReport.objects.get()
    assert (kept.tries, kept.given_up_at is not None) == (rejected.MOST_TRIES, True)
    overdue(row)
    reaper.reap()
    assert cloud.fresh(row).task_state is None
    rejected.prune()
    assert RejectedReport.objects.exists(), "whoever looks into it finds it for a while"


@pytest.mark.slow
@pytest.mark.doctor_finds("rejected_reports")
def test_a_host_fills_no_table(cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch) -> None:
    _, agent = stopping(cloud, alice)
    Broken(monkeypatch)
    (command,) = agent.take()
    for _ in range(rejected.MOST + 5):
        agent.report(command, "finished", detail={"x": "y" * 100})
    assert RejectedReport.objects.count() == rejected.MOST
    RejectedReport.objects.all().delete()
    agent.report(command, "finished", message="\0" * 100_000)
    assert len(RejectedReport.objects.get().event) < 70_000


@pytest.mark.both_databases("constraints")
def test_the_doctor_shows_it_and_has_it_tried_again(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, agent = stopping(cloud, alice)
    broken = Broken(monkeypatch)
    agent.work()
    RejectedReport.objects.update(given_up_at=timezone.now(), tries=rejected.MOST_TRIES)
    (finding,) = examine(["rejected_reports"], pause=0)
    assert (finding.severity, finding.subject) == ("error", "host kelvin")
    assert str(row.id) in finding.sentence
    broken.repair()
    treat([finding], repair=True)
    reports.try_again()
    assert cloud.fresh(row).vm_state == "stopped"
    assert examine(["rejected_reports"], pause=0) == []
