"""Which jobs exist: the only functions a queue message can name, and the work that is done by the clock."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from provisioning.common.wired import Wired

Job = TypeVar("Job", bound=Callable[..., None])
GiveUp = Callable[..., None]
"""Called as ``on_give_up(reason, **payload)`` when a job will not be tried again."""


@dataclass(frozen=True)
class RegisteredJob:
    """One job of one topic."""

    name: str
    topic: str
    run: Callable[..., None]
    on_give_up: GiveUp | None
    long: bool = False
    """Whether it may take longer than a worker's time for a job, and runs beside the others."""
    leaves_room: bool = False
    """Whether it never takes the last of a worker's threads for long jobs."""


@dataclass(frozen=True)
class PeriodicJob:
    """Work done every ``every`` seconds by one worker group of the cloud at a time."""

    name: str
    every: float
    run: Callable[[], Any]


jobs: dict[str, RegisteredJob] = {}
periodic_jobs: dict[str, PeriodicJob] = {}
START_CHECKS = Wired[Callable[[], None]]("The checks before a worker group starts")
"""A NovellaError stops the start with its message."""


def job(
    name: str, *, topic: str, on_give_up: GiveUp | None = None, long: bool = False, leaves_room: bool = False
) -> Callable[[Job], Job]:
    """Register a function that ``cast`` may name; it takes the cast's payload as keywords.

    It runs at least once, so it must look at the state first.  An exception is logged and the job tried again shortly;
    after three starts ``on_give_up(reason, **payload)`` is called instead.  A ``long`` job runs in a thread beside the
    others, for as long as it takes; it is given back when its worker dies or stops.  One that ``leaves_room``, because
    it may take hours and many are asked for, never takes the last thread for such jobs.
    """

    def register(function: Job) -> Job:
        _unique(jobs, name, function)
        jobs[name] = RegisteredJob(name, topic, function, on_give_up, long, leaves_room)
        return function

    return register


def periodic(name: str, *, every: float) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register work to be done every ``every`` seconds, by one worker group at a time however many there are."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        _unique(periodic_jobs, name, function)
        periodic_jobs[name] = PeriodicJob(name, every, function)
        return function

    return register


def _unique(known: dict[str, Any], name: str, function: Callable[..., Any]) -> None:
    if name in known and known[name].run.__qualname__ != function.__qualname__:
        raise ValueError(f"Two jobs are called {name!r}.")
