"""What an order may use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.messages import Command
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import ComputeDriver


class CommandCancelledError(Exception):
    """The order was told to stop, and stopped between two steps: the instance is being deleted."""


Tell = Callable[[str, float, float, Mapping[str, str]], None]
"""Called with a step's name, its start and end in Unix seconds, and what is worth telling of it."""


@dataclass(frozen=True)
class CommandContext:
    """One order's hold on the host; used from a worker thread.

    ``known`` is what the guest was made of until now, None when this host's memory was lost.
    """

    command: Command
    parts: HostServices
    known: InstanceSpec | None
    tell: Tell
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def uuid(self) -> str:
        """The instance's id."""
        return self.command.instance_id

    @property
    def driver(self) -> ComputeDriver:
        """The hypervisor."""
        return self.parts.driver

    def stopped(self) -> bool:
        """Say whether long work is to leave off: the order was told to stop, or its deadline has passed."""
        return self.cancelled.is_set() or 0 < self.command.deadline < time.time()

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, str]]:
        """Report what is done in the block as a step, with the facts that the block puts into the dictionary; not when
        it fails.  Raises CommandCancelledError before it begins when the order is told to stop.
        """
        if self.cancelled.is_set():
            raise CommandCancelledError
        started = time.time()
        facts: dict[str, str] = {}
        yield facts
        if self.parts.after_step is not None:
            self.parts.after_step(name, self.cancelled)
        self.tell(name, started, time.time(), facts)
