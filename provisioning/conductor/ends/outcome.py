"""How an order ended, in the conductor's words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from compute_agent.contract.power import PowerState


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether an order was carried out, and what its host says.

    ``message`` is fit for the owner; ``code`` is the host's (``compute_agent.virt.errors``), ``silent`` when its
    deadline passed without a word.
    """

    well: bool
    begun_at: datetime
    ended_at: datetime
    power: PowerState | None = None
    message: str = ""
    code: str = ""
    retryable: bool = False

    @property
    def silent(self) -> bool:
        """Whether the host said nothing."""
        return self.code == "silent"
