"""Our answers have the names and kinds of the references' samples; what differs is listed with its reason."""

from __future__ import annotations

import pytest

from tests.samples.recorder import HERE
from tests.samples.shapes import Difference, differences


def listed(service: str) -> dict[Difference, str]:
    """Read ``OPERATION | what | name | reason``."""
    found = {}
    for line in (HERE / "differences" / f"{service}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            operation, what, name, reason = (part.strip() for part in line.split(" | ", 3))
            assert reason, line
            found[operation, what, name] = reason
    return found


@pytest.mark.parametrize("service", ["compute", "image"])
def test_answers_have_the_references_shapes(service: str) -> None:
    found, known = differences(service), listed(service)
    assert sorted(found - known.keys()) == [], "mend these, or list them with a reason"
    assert sorted(known.keys() - found) == [], "these are mended: take them out of the list"
