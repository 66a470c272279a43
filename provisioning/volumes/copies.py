"""Copies of a volume's data that go on beside it: each kind of copy registers who answers for it."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from compute_agent.contract.messages import AgentEvent
from provisioning.common.wired import Wired


class Copy(ABC):
    """One copy that is being made, locked until the caller's transaction ends; its id is that of what is written."""

    @abstractmethod
    def take_life(self, until: datetime) -> None:
        """Hear that the host works on it, and until when it is waited for now."""

    @abstractmethod
    def take_progress(self, done: int, total: int) -> None:
        """Hear how many bytes are done; ``total`` 0: not known."""

    @abstractmethod
    def take_end(self, event: AgentEvent, body: Any) -> None:
        """Take the end of the command."""


Load = Callable[[Collection[uuid.UUID]], Mapping[uuid.UUID, Copy]]
"""Locks and returns the copies of one kind among these ids."""
KINDS = Wired[Load]("The kinds of copies")


def load(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Copy]:
    return {key: copy for each in KINDS for key, copy in each(ids).items()}
