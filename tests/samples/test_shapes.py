"""Our answers have the names and kinds of the references' samples; what differs is listed with its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from tests.samples.shapes import Difference, differences
from tests.samples.store import HERE


def listed(service: str) -> list[Difference]:
    """Read ``OPERATION | what | name | reason``; an operation and a name may have ``*``."""
    values = []
    for line in (HERE / "differences" / f"{service}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            operation, what, name, reason = (part.strip() for part in line.split(" | ", 3))
            assert reason, line
            values.append((operation, what, name))
    return values


def is_one_of(difference: Difference, line: Difference) -> bool:
    return all(fnmatchcase(*_plain(part, pattern)) for part, pattern in zip(difference, line, strict=True))


def _plain(part: str, pattern: str) -> tuple[str, str]:
    """``[]`` stands for itself."""
    return part.replace("[]", "()"), pattern.replace("[]", "()")


@pytest.mark.slow
@pytest.mark.parametrize("service", ["compute", "image", "network", "volume"])
def test_answers_have_the_references_shapes(service: str) -> None:
    result, known = differences(service), listed(service)
    unknown = [each for each in result if not any(is_one_of(each, line) for line in known)]
    assert sorted(unknown) == [], "mend these, or list them with a reason"
    settled = [line for line in known if not any(is_one_of(each, line) for each in result)]
    assert settled == [], "take these out of the list"
