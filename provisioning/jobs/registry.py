"""Jobs, the only functions that a message can name, and periodic jobs; ``provisioning.wiring.jobs`` lists them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec

from provisioning.common.wired import Wired, WiredByName

P = ParamSpec("P")
GiveUp = Callable[..., None]
"""Called as ``on_give_up(reason, **payload)`` when a job will not be retried."""


@dataclass(frozen=True)
class Job(Generic[P]):
    """A function that ``cast`` may name, as a job of a topic. A direct call runs it."""

    name: str
    topic: str
    run: Callable[P, None]
    on_give_up: GiveUp | None
    long: bool = False
    """Whether the job may exceed the time limit of workers, and therefore runs in a thread."""
    leaves_room: bool = False
    """Whether the job never uses a worker's last thread for long jobs."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        self.run(*args, **kwargs)


@dataclass(frozen=True)
class PeriodicJob:
    """A function that runs every ``every`` seconds, in one worker group of the cloud at a time."""

    name: str
    every: float
    run: Callable[[], Any]

    def __call__(self) -> Any:
        return self.run()


jobs = WiredByName[Job[Any]]("The jobs")
periodic_jobs = WiredByName[PeriodicJob]("The periodic jobs")
START_CHECKS = Wired[Callable[[], None]]("The checks before a worker group starts")
"""A check that raises NovellaError prevents the start; the command prints the error's message."""


def job(
    name: str, *, topic: str, on_give_up: GiveUp | None = None, long: bool = False, leaves_room: bool = False
) -> Callable[[Callable[P, None]], Job[P]]:
    """Declare a function as a job; it gets the cast's payload as keywords.

    It runs at least once, so it must check the current state first. An exception is logged and the job retried shortly;
    after three starts ``on_give_up(reason, **payload)`` is called instead. A ``long`` job runs in a thread without a
    time limit and is requeued when its worker dies or stops. A job with ``leaves_room``, because it may take hours and
    many are requested, never uses the last thread for long jobs.
    """
    return lambda function: Job(name, topic, function, on_give_up, long, leaves_room)


def periodic(name: str, *, every: float) -> Callable[[Callable[[], Any]], PeriodicJob]:
    """Declare a function as a periodic job."""
    return lambda function: PeriodicJob(name, every, function)
