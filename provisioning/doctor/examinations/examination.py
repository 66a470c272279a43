"""Runs checks, once or twice, and the repairs of their findings."""

import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db import InterfaceError, OperationalError

from provisioning.common.errors import InvalidInputError
from provisioning.doctor.checks import CHECKS
from provisioning.doctor.finding import SEVERITIES, Finding

PAUSE = 3.0
"""Seconds between the two runs of the checks."""
MOST = 200
"""Maximum number of findings of one check in one run; the next run finds the others."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Treated:
    """A finding and the result of its repair; None: it was not repaired."""

    finding: Finding
    repaired: str | None = None


def chosen(names: Collection[str] | None) -> list[str]:
    """Return the names of the chosen checks: all checks if ``names`` is empty.

    Raises InvalidInputError for an unknown check.
    """
    unknown = sorted(set(names or ()) - CHECKS.keys())
    if unknown:
        raise InvalidInputError(f"There is no check {unknown[0]!r}. The checks are {', '.join(CHECKS)}.", field="check")
    return [name for name in CHECKS if not names or name in names]


def examine(
    names: Collection[str] | None = None, *, pause: float = PAUSE, wait: Callable[[float], object] = time.sleep
) -> list[Finding]:
    """Run the checks twice, ``pause`` seconds apart, and return the findings that both runs have, worst first. Changes
    nothing.

    A running cloud changes: findings that the second run does not confirm were only transient.
    """
    first = {finding.key for finding in findings(names)}
    if not first:
        return []
    wait(pause)
    suspects = {name for name, _, _ in first}
    again = [finding for finding in findings(suspects) if finding.key in first]
    return sorted(again, key=lambda finding: SEVERITIES.index(finding.severity))


def treat(findings: Sequence[Finding], *, repair: bool) -> list[Treated]:
    """Repair the findings if ``repair`` is set. Each repair is a separate transaction and checks its finding again."""
    return [Treated(finding, _repair(finding) if repair else None) for finding in findings]


def findings(names: Collection[str] | None = None) -> Iterator[Finding]:
    """Yield the findings of one run. Only findings that a second run confirms are reliable, because a running cloud
    changes.
    """
    for name in chosen(names):
        try:
            yield from itertools.islice(CHECKS[name](), MOST)
        except (OperationalError, InterfaceError):  # a fault of the database affects all checks
            raise
        except Exception as error:
            log.exception("The check %s failed.", name)
            sentence = f"The check itself failed ({type(error).__name__}); see the log."
            yield Finding("error", "doctor", sentence, check=name)


def _repair(finding: Finding) -> str | None:
    if finding.repair is None:
        return None
    try:
        result = finding.repair()
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("The finding of the check %s about %s could not be repaired.", finding.check, finding.subject)
        return None
    if result:
        log.warning("Doctor: %s: %s %s", finding.subject, finding.sentence, result)
    return result
