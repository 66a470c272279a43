"""Every task has a deadline and a setting, and the operator guide says which."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest
from provisioning.common import environment
from provisioning.common.context import RequestContext
from provisioning.common.tasks import TASKS, RecordTask, Timeout
from provisioning.compute.actions.power import Stop
from provisioning.compute.models import Instance
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState
from provisioning.compute.upkeep import reaper
from provisioning.hosts.models import HostCommand
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain

GUIDE = Path(__file__).resolve().parents[2] / "docs/operator-guide.md"


def test_every_task_has_a_deadline_and_a_setting(settings: Any) -> None:
    now = timezone.now()
    assert set(state.SETTING_OF) == set(TaskState)
    for task in TaskState:
        assert getattr(settings, state.SETTING_OF[task]) > 0
        assert state.deadline_of(task, now) == now + timedelta(seconds=state.seconds_of(task))
    assert state.deadline_of(None, now) is None


def test_the_guide_lists_them_all() -> None:
    """The table of the guide, made from the code: copy the left side when this fails."""
    text = GUIDE.read_text().partition("### Deadlines")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `([a-z_-]+)` \| `NOVELLA_(\w+)` \| (\d+) \| (.+) \|$", text, re.MULTILINE)
    expected = [(task.value, state.SETTING_OF[task], str(state.seconds_of(task))) for task in TaskState]
    assert expected == [row[:3] for row in rows]
    assert all(len(row[3]) > 10 for row in rows)


def _row(task: RecordTask[Any], status: str, timeout: Timeout) -> str:
    cells = (f"`{status}`", f"`NOVELLA_{timeout.setting}`", f"`{timeout.name}`", timeout.seconds, task.when_overdue)
    return f"| {task.model._meta.verbose_name} | {' | '.join(map(str, cells))} |\n"


def test_the_guide_lists_the_tasks_of_other_records() -> None:
    """The table is generated from the classes: ``WRITE_PAGES=1`` writes it."""
    assert [task for task in TASKS.tasks if task.timeouts and not task.when_overdue] == []
    rows = [_row(task, status, timeout) for task in TASKS.tasks for status, timeout in task.timeouts.items()]
    before, heading, after = GUIDE.read_text().partition("#### Deadlines of volumes, backups and images\n")
    head, line, rest = after.partition("|---|---|---|---|--:|---|\n")
    rest = rest[rest.index("\n\n") + 1 :]
    page = before + heading + head + line + "".join(sorted(rows)) + rest
    if os.environ.get("WRITE_PAGES"):
        GUIDE.write_text(page)
    assert GUIDE.read_text() == page, "run this test with WRITE_PAGES=1"


@pytest.mark.parametrize("setting", sorted(set(state.SETTING_OF.values())))
def test_each_setting_is_followed(settings: Any, setting: str) -> None:
    setattr(settings, setting, 7)
    for task, named in state.SETTING_OF.items():
        assert (state.seconds_of(task) == 7) == (
            named == setting or (named == "CAST_TIMEOUT" and setting == "BUILD_TIMEOUT")
        )


def test_one_task_may_have_its_own(settings: Any) -> None:
    settings.TASK_TIMEOUTS = {"rebuilding": 900, "scheduling": 5000}
    assert state.seconds_of(TaskState.REBUILDING) == 900
    assert state.seconds_of(TaskState.SCHEDULING) == 5000
    assert state.seconds_of(TaskState.RESCUING) == settings.BUILD_TIMEOUT


def test_an_order_has_the_deadline_of_its_task(cloud: Cloud, alice: RequestContext, settings: Any) -> None:
    cloud.add_host("kelvin")
    settings.TASK_TIMEOUTS = {"spawning": 77, "powering-off": 33}
    instance = cloud.launch(alice)
    drain()
    (build,) = cloud.agents["kelvin"].take()
    assert isinstance(build.body, BuildRequest)
    assert build.deadline == pytest.approx((timezone.now() + timedelta(seconds=77)).timestamp(), abs=20)
    assert cloud.fresh(instance).task_deadline is not None
    cloud.agents["kelvin"].carry_out(build)
    Stop.begin(context("alice"), instance.id)
    order = HostCommand.objects.get(kind="power_request")
    assert order.deadline == cloud.fresh(instance).task_deadline
    assert order.deadline is not None
    assert order.deadline < timezone.now() + timedelta(seconds=34)


def test_what_its_own_deadline_has_passed_is_looked_after(cloud: Cloud, alice: RequestContext, settings: Any) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    settings.TASK_TIMEOUTS = {"powering-off": 33}
    Stop.begin(context("alice"), instance.id)
    Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
    reaper.reap()
    assert state_of(instance) == ("active", None)


def test_a_name_that_no_task_has_stops_the_start(settings: Any) -> None:
    settings.TASK_TIMEOUTS = {"rebuilding": 1}
    state.check()
    settings.TASK_TIMEOUTS = {"rebuild": 1}
    with pytest.raises(ImproperlyConfigured, match="NOVELLA_TASK_TIMEOUTS names rebuild, which is not a task_state"):
        state.check()


@pytest.mark.parametrize(
    "text", ["rebuilding", "rebuilding=", "=5", "rebuilding=0", "rebuilding=x", "rebuilding=9999999", "a=1,b"]
)
def test_what_is_no_list_of_seconds_stops_the_start(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NOVELLA_TASK_TIMEOUTS", text)
    with pytest.raises(ImproperlyConfigured, match="NOVELLA_TASK_TIMEOUTS has"):
        environment.seconds_by_name("NOVELLA_TASK_TIMEOUTS", 1, 2_592_000)


def test_a_list_of_seconds_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOVELLA_TASK_TIMEOUTS", "rebuilding=900, deleting = 60")
    assert environment.seconds_by_name("NOVELLA_TASK_TIMEOUTS", 1, 3600) == {"rebuilding": 900, "deleting": 60}
    monkeypatch.delenv("NOVELLA_TASK_TIMEOUTS")
    assert environment.seconds_by_name("NOVELLA_TASK_TIMEOUTS", 1, 3600) == {}
