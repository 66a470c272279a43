"""Common interface of the parts of a host's network, each of which applies its share of the wanted state."""

import abc
from collections.abc import Callable, Iterable
from typing import TypeVar

from compute_agent.network.wanted import Touched, Wanted
from compute_agent.virt.errors import RetryableHostError

T = TypeVar("T")


class Part(abc.ABC):
    """A layer of the network: bridges, services or routers.  Calls are serialized; failures of this host raise
    RetryableHostError, after the rest of the layer is done.

    Unchanged objects are left alone, so that a restart interrupts no connection.
    """

    @abc.abstractmethod
    def prepare(self) -> None:
        """Create what all subjects share; called once when the agent starts, before anything else."""

    @abc.abstractmethod
    def bring(self, wanted: Wanted, touched: Touched) -> None:
        """Create and update the touched subjects; parts are called in the order of their layers."""

    @abc.abstractmethod
    def drop(self, wanted: Wanted) -> None:
        """Remove what is not wanted; parts are called in reverse order, after all have been brought up to date."""

    @abc.abstractmethod
    def check(self, wanted: Wanted) -> list[str]:
        """Repair what has failed and return a line for each repair; cheap enough to run every few seconds."""


def for_each(items: Iterable[T], work: Callable[[T], object]) -> None:
    """Do the work for every item even if some fail; then raise the first RetryableHostError."""
    failed: list[RetryableHostError] = []
    for item in items:
        try:
            work(item)
        except RetryableHostError as error:
            failed.append(error)
    if failed:
        raise failed[0]
