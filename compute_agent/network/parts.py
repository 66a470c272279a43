"""What the parts of a host's network have in common: each brings its share of the kernel to what is wanted."""

import abc
from collections.abc import Callable, Iterable
from typing import TypeVar

from compute_agent.network.wanted import Touched, Wanted
from compute_agent.virt.errors import RetryableHostError

T = TypeVar("T")


class Part(abc.ABC):
    """One share of the network: bridges, services, routers.  Calls come one at a time; failures of this host raise
    RetryableHostError, after everything else of the share is done.

    What is right already is left alone, so that a restart cuts no connection.
    """

    @abc.abstractmethod
    def prepare(self) -> None:
        """Make what all subjects share; called once when the agent starts, before anything else."""

    @abc.abstractmethod
    def bring(self, wanted: Wanted, touched: Touched) -> None:
        """Make and change what is wanted of the touched subjects; parts are called in the order of their layers."""

    @abc.abstractmethod
    def drop(self, wanted: Wanted) -> None:
        """Remove what is not wanted; parts are called in the opposite order, after all have brought theirs."""

    @abc.abstractmethod
    def check(self, wanted: Wanted) -> list[str]:
        """Mend what died by itself and return a line for each thing mended; cheap enough for every few seconds."""


def for_each(items: Iterable[T], work: Callable[[T], object]) -> None:
    """Do the work for every item, although it fails for some; then raise the first RetryableHostError."""
    failed: list[RetryableHostError] = []
    for item in items:
        try:
            work(item)
        except RetryableHostError as error:
            failed.append(error)
    if failed:
        raise failed[0]
