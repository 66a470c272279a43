"""The common interface of the parts of a host's network. Each part applies its share of the desired state."""

import abc
from collections.abc import Callable, Iterable
from typing import TypeVar

from compute_agent.network.state.desired import DesiredState, Touched
from compute_agent.virt.errors import RetryableHostError

T = TypeVar("T")


class Part(abc.ABC):
    """A layer of the network: bridges, services or routers. Calls are serialized.

    Failures of this host raise RetryableHostError, after the rest of the layer has been applied. Unchanged objects are
    left unchanged, so that a restart interrupts no connection.
    """

    @abc.abstractmethod
    def prepare(self) -> None:
        """Create the objects that all subjects share. Called once when the agent starts, before all other methods."""

    @abc.abstractmethod
    def bring(self, desired: DesiredState, touched: Touched) -> None:
        """Create and update the touched subjects. Parts are called in the order of their layers."""

    @abc.abstractmethod
    def drop(self, desired: DesiredState) -> None:
        """Remove all other objects. Parts are called in reverse order, after ``bring`` of all parts."""

    @abc.abstractmethod
    def check(self, desired: DesiredState) -> list[str]:
        """Repair failures and return a line for each repair. Cheap enough to run every few seconds."""


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
