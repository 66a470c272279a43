"""Outcomes of commands to hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.utils import timezone

from compute_agent.contract.power import PowerState

SILENT = "The host did not report within {seconds} seconds."


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a command succeeded, with the host's report.

    ``message`` is fit for the owner. ``code`` is the host's (``compute_agent.virt.errors``), or ``silent`` after a
    timeout.
    """

    well: bool
    begun_at: datetime
    ended_at: datetime
    power: PowerState | None = None
    message: str = ""
    code: str = ""
    retryable: bool = False
    detail: Mapping[str, str] = field(default_factory=dict)
    """The result of the command, documented at its request class."""
    reported_end: datetime | None = None
    """When the command ended by the host's clock."""

    @property
    def silent(self) -> bool:
        """Whether the command timed out without a report."""
        return self.code == "silent"


def silent_since(begun: datetime) -> Outcome:
    """Return the outcome of a command that timed out."""
    now = timezone.now()
    waited = round((now - begun).total_seconds())
    return Outcome(well=False, begun_at=begun, ended_at=now, message=SILENT.format(seconds=waited), code="silent")
