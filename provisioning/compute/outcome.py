"""How a command to a host ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.utils import timezone

from compute_agent.contract.power import PowerState

SILENT = "The host did not report within {seconds} seconds."


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a command was carried out, and what its host says.

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
    detail: Mapping[str, str] = field(default_factory=dict)
    """The result that the host reports, as the docstring of the request says."""

    @property
    def silent(self) -> bool:
        """Whether the host said nothing."""
        return self.code == "silent"


def silent_since(begun: datetime) -> Outcome:
    """Return the end of a command about which its host has said nothing since it was given."""
    now = timezone.now()
    waited = round((now - begun).total_seconds())
    return Outcome(well=False, begun_at=begun, ended_at=now, message=SILENT.format(seconds=waited), code="silent")
