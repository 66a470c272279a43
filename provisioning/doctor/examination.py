"""Looking once or twice, and mending what is still wrong."""

import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db import InterfaceError, OperationalError

from provisioning.common.errors import InvalidInputError
from provisioning.doctor.finding import SEVERITIES, Finding, checks

PAUSE = 3.0
"""Seconds between the two looks."""
MOST = 200
"""Findings of one check in one look; the next one finds the others."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Treated:
    """A finding, and what was done about it; None: nothing."""

    finding: Finding
    repaired: str | None = None


def chosen(names: Collection[str] | None) -> list[str]:
    """Return the checks that are meant, all when none is named.  Raises InvalidInputError for one that is none."""
    unknown = sorted(set(names or ()) - checks.keys())
    if unknown:
        raise InvalidInputError(f"There is no check {unknown[0]!r}; there are {', '.join(checks)}.", field="check")
    return [name for name in checks if not names or name in names]


def examine(
    names: Collection[str] | None = None, *, pause: float = PAUSE, wait: Callable[[float], object] = time.sleep
) -> list[Finding]:
    """Return what is wrong at two looks, ``pause`` seconds apart, worst first; changes nothing.

    Things move while the cloud works: what the second look does not find unmoved was on its way.
    """
    first = {finding.key for finding in findings(names)}
    if not first:
        return []
    wait(pause)
    suspects = {name for name, _, _ in first}
    again = [finding for finding in findings(suspects) if finding.key in first]
    return sorted(again, key=lambda finding: SEVERITIES.index(finding.severity))


def treat(findings: Sequence[Finding], *, repair: bool) -> list[Treated]:
    """Mend what can be mended, when that is wanted; each repair is a transaction of its own and looks a last time."""
    return [Treated(finding, _mend(finding) if repair else None) for finding in findings]


def findings(names: Collection[str] | None = None) -> Iterator[Finding]:
    """Yield what one look finds, which is wrong where nothing moves meanwhile."""
    for name in chosen(names):
        try:
            yield from itertools.islice(checks[name](), MOST)
        except (OperationalError, InterfaceError):  # the database's trouble, and so everybody's
            raise
        except Exception as error:
            log.exception("The check %s failed.", name)
            sentence = f"The check itself failed ({type(error).__name__}); the log says more."
            yield Finding("error", "doctor", sentence, check=name)


def _mend(finding: Finding) -> str | None:
    if finding.mend is None:
        return None
    try:
        said = finding.mend()
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("What the check %s found of %s could not be mended.", finding.check, finding.subject)
        return None
    if said:
        log.warning("Doctor: %s: %s %s", finding.subject, finding.sentence, said)
    return said
