"""What a check finds, and how checks are registered."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

Severity = Literal["error", "warning", "note"]
"""``error``: records contradict each other, or something is lost; ``warning``: somebody should look; ``note``: only
told, all is well.
"""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

Mend = Callable[[], str | None]
"""Looks again under the locks that services take, mends, and says what was done; None when there was nothing to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    ``subject`` says of what (``instance <id>``, ``host <name>``), ``sentence`` what is wrong, ``repair`` what mending
    it does (None: a person must).  ``evidence`` is what must be the same at the second look; the sentence itself when
    there is none.
    """

    severity: Severity
    subject: str
    sentence: str
    repair: str | None = None
    mend: Mend | None = field(default=None, compare=False, repr=False)
    evidence: object = field(default=None, compare=False, repr=False)
    check: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells whether two looks have seen the same."""
        return self.check, self.subject, self.sentence if self.evidence is None else repr(self.evidence)


Check = Callable[[], Iterator[Finding]]

checks: dict[str, Check] = {}
"""Every check by its name, in the order in which they are made."""


def check(name: str) -> Callable[[Check], Check]:
    """Register a check; what it yields bears its name."""

    def register(function: Check) -> Check:
        def named() -> Iterator[Finding]:
            for finding in function():
                yield replace(finding, check=name)

        checks[name] = named
        return function

    return register


def number(many: int, noun: str) -> str:
    """Count things in words: ``1 server``, ``2 servers``."""
    return f"{many} {noun}" if many == 1 else f"{many} {noun}s"
