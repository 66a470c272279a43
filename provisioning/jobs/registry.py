"""Registry of jobs: the only functions that a message can name, and the periodic jobs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from provisioning.common.wired import Wired

Job = TypeVar("Job", bound=Callable[..., None])
GiveUp = Callable[..., None]
"""Called as ``on_give_up(reason, **payload)`` when a job will not be retried."""


@dataclass(frozen=True)
class RegisteredJob:
    """A job of a topic."""

    name: str
    topic: str
    run: Callable[..., None]
    on_give_up: GiveUp | None
    long: bool = False
    """Whether the job may exceed the time limit of workers, and therefore runs in a thread."""
    leaves_room: bool = False
    """Whether the job never uses a worker's last thread for long jobs."""


@dataclass(frozen=True)
class PeriodicJob:
    """A job that runs every ``every`` seconds, in one worker group of the cloud at a time."""

    name: str
    every: float
    run: Callable[[], Any]


jobs: dict[str, RegisteredJob] = {}
periodic_jobs: dict[str, PeriodicJob] = {}
START_CHECKS = Wired[Callable[[], None]]("The checks before a worker group starts")
"""A check that raises NovellaError prevents the start; the command prints the error's message."""


def job(
    name: str, *, topic: str, on_give_up: GiveUp | None = None, long: bool = False, leaves_room: bool = False
) -> Callable[[Job], Job]:
    """Register a function that ``cast`` may name; it gets the cast's payload as keywords.

    It runs at least once, so it must check the current state first. An exception is logged and the job retried shortly;
    after three starts ``on_give_up(reason, **payload)`` is called instead. A ``long`` job runs in a thread without a
    time limit and is requeued when its worker dies or stops. A job with ``leaves_room``, because it may take hours and
    many are requested, never uses the last thread for long jobs.
    """

    def register(function: Job) -> Job:
        _unique(jobs, name, function)
        jobs[name] = RegisteredJob(name, topic, function, on_give_up, long, leaves_room)
        return function

    return register


def periodic(name: str, *, every: float) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a function to run every ``every`` seconds, in one worker group at a time."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        _unique(periodic_jobs, name, function)
        periodic_jobs[name] = PeriodicJob(name, every, function)
        return function

    return register


def _unique(known: dict[str, Any], name: str, function: Callable[..., Any]) -> None:
    if name in known and known[name].run.__qualname__ != function.__qualname__:
        raise ValueError(f"Two jobs are called {name!r}.")
