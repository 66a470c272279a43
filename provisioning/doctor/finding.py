"""Checks and their findings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

Severity = Literal["error", "warning", "note"]
"""``error``: records contradict each other, or something is lost; ``warning``: an operator should investigate;
``note``: information only.
"""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

Repair = Callable[[], str | None]
"""Checks the finding again under the locks of the services, repairs it, and returns a description of the repair; None:
nothing to do.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that a check has found.

    * ``subject``: the resource, as ``instance <id>`` or ``host <name>``
    * ``sentence``: the fault
    * ``remedy``: the effect of the repair, as an instruction; None: an operator must act
    * ``evidence``: values that must be the same in both runs; without it, the sentence must be the same
    """

    severity: Severity
    subject: str
    sentence: str
    remedy: str | None = None
    repair: Repair | None = field(default=None, compare=False, repr=False)
    evidence: object = field(default=None, compare=False, repr=False)
    check: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the finding, which is compared between two runs."""
        return self.check, self.subject, self.sentence if self.evidence is None else repr(self.evidence)


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the doctor. A call runs it; its findings carry its name."""

    name: str
    run: Callable[[], Iterator[Finding]]
    at_once: bool
    """Whether one run is reliable and takes a few queries, so that a page may run it."""

    def __call__(self) -> Iterator[Finding]:
        return (replace(finding, check=self.name) for finding in self.run())


def check(name: str, *, at_once: bool = False) -> Callable[[Callable[[], Iterator[Finding]]], Check]:
    """Declare a check; ``provisioning.doctor.checks`` lists them."""
    return lambda function: Check(name, function, at_once)


def number(many: int, noun: str) -> str:
    """Return a count with its noun: ``1 server``, ``2 servers``."""
    return f"{many} {noun}" if many == 1 else f"{many} {noun}s"
