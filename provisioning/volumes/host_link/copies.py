"""Copies of a volume's data to images and backups. They run independently of the volume's tasks.

Each kind of copy registers a function that locks and loads its copies (``Load``).
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from compute_agent.contract.messages import AgentEvent
from provisioning.common.wired import Wired


class Copy(ABC):
    """A copy in progress, locked until the caller's transaction ends. Its id is the id of the new image or backup."""

    @abstractmethod
    def take_life(self, until: datetime) -> None:
        """Handle a heartbeat: the host is still copying, and the new deadline is ``until``."""

    @abstractmethod
    def take_progress(self, done: int, total: int) -> None:
        """Handle the host's report of the bytes copied so far; ``total`` 0: unknown."""

    @abstractmethod
    def take_end(self, event: AgentEvent, body: Any) -> None:
        """Handle the host's report that the copy command has finished or failed."""


Load = Callable[[Collection[uuid.UUID]], Mapping[uuid.UUID, Copy]]
"""Locks and returns the copies of one kind with these ids."""
KINDS = Wired[Load]("The kinds of copies")


def load(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Copy]:
    return {key: copy for each in KINDS for key, copy in each(ids).items()}
