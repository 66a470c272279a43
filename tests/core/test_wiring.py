"""``provisioning.wiring`` lists everything that is declared, and its lists are connected once."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import provisioning
from provisioning.common.tasks import TASKS, RecordTask, Registry
from provisioning.common.wired import Wired, WiredByName
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.every import ACTIONS
from provisioning.compute.actions.registry import actions
from provisioning.doctor.checks import CHECKS
from provisioning.doctor.finding import Check
from provisioning.images.services.uploads import Upload
from provisioning.jobs.registry import Job, PeriodicJob, job, jobs, periodic_jobs


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    """All modules of ``provisioning``; a module that nothing imports could declare something, too."""
    names = [each.name for each in pkgutil.walk_packages(provisioning.__path__, "provisioning.")]
    return [import_module(name) for name in names if ".migrations" not in name]


def _declared(modules: list[ModuleType], kind: type[Any]) -> set[str]:
    return {value.name for module in modules for value in vars(module).values() if isinstance(value, kind)}


def _concrete(kind: type[Any]) -> Iterator[type[Any]]:
    for cls in kind.__subclasses__():
        if cls.__module__.startswith("provisioning.") and not inspect.isabstract(cls):
            yield cls
        yield from _concrete(cls)


def test_all_jobs_are_listed(modules: list[ModuleType]) -> None:
    assert {"jobs.ping", "compute.schedule"} <= _declared(modules, Job) <= jobs.keys()
    assert "images.import" in jobs  # of a task
    assert {"jobs.purge", "events.prune"} <= _declared(modules, PeriodicJob) <= periodic_jobs.keys()


def test_all_checks_are_listed(modules: list[ModuleType]) -> None:
    assert {"tasks", "webhook"} <= _declared(modules, Check) == CHECKS.keys()


def test_all_tasks_are_listed(modules: list[ModuleType]) -> None:
    assert set(_concrete(RecordTask)) == {type(task) for task in TASKS.tasks}


def test_all_server_actions_are_listed(modules: list[ModuleType]) -> None:
    assert {cls for cls in _concrete(ServerAction) if hasattr(cls, "key")} == set(ACTIONS)
    assert [type(each) for each in actions.values()] == list(ACTIONS)


def test_a_list_is_connected_once_and_not_read_before() -> None:
    wired = Wired[int]("The numbers")
    with pytest.raises(RuntimeError, match="not connected"):
        list(wired)
    wired.connect(1, 2)
    assert ([*wired], len(wired)) == ([1, 2], 2)
    with pytest.raises(RuntimeError, match="already"):
        wired.connect(3)
    with pytest.raises(ValueError, match="too many"):
        wired.only()


def test_names_are_connected_once_and_unique() -> None:
    @job("tests.one", topic="tests")
    def one() -> None: ...

    @job("tests.one", topic="others")
    def other() -> None: ...

    wired = WiredByName[Job[Any]]("The jobs of this test")
    with pytest.raises(RuntimeError, match="not connected"):
        wired.get("tests.one")
    with pytest.raises(ValueError, match=r"tests\.one"):
        wired.connect(one, other)
    wired.connect(one)
    assert dict(wired) == {"tests.one": one}
    with pytest.raises(RuntimeError, match="already"):
        wired.connect(one)


def test_two_tasks_do_not_share_a_status() -> None:
    class Other(Upload):
        """A second task of an image that is being saved."""

    with pytest.raises(ValueError, match="two tasks of Image with the status saving"):
        Registry().connect(Upload, Other)
