"""Lists of the Identity, Image and Networking APIs cost the same number of queries with one more item.

``query_baseline.txt`` has the numbers; after an intended change, write it with ``WRITE_QUERY_BASELINE=1``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from tests.api.resources import ROWS, Examined, World

pytestmark = pytest.mark.django_db
BASELINE = Path(__file__).with_name("query_baseline.txt")
SERVICES = ("identity", "image", "network")
"""The APIs without a baseline of their own."""


def _queries(it: Examined, least: int) -> int:
    """Return the number of queries of its list, which has at least so many items."""
    counts = []
    for _ in range(2):  # the first one fills caches
        with CaptureQueriesContext(connection) as captured:
            answer = it.api.get(it.path)
        counts.append(len(captured))
    assert len(answer.json()[it.resource.plural]) >= least, it.path
    return counts[-1]


@pytest.mark.slow
def test_lists_cost_what_the_baseline_says(world: World) -> None:
    lines: list[str] = []
    grown: dict[tuple[str, str], tuple[int, int]] = {}
    for of in sorted(of for of in ROWS if of[0] in SERVICES):
        it = Examined(of, world)
        with transaction.atomic():
            assert it.create(it.body).status_code == 201, of
            one = _queries(it, 1)
            assert it.create(it.other).status_code == 201, of
            two = _queries(it, 2)
            transaction.set_rollback(True)
        lines.append(f"{of[0]:<10}{of[1]:<30} {one:>3}")
        grown |= {of: (one, two)} if two > one else {}
    if os.environ.get("WRITE_QUERY_BASELINE"):
        BASELINE.write_text("\n".join(lines) + "\n")
    assert not grown, "these lists ask the database more often the longer they are"
    different = sorted(set(lines) ^ set(BASELINE.read_text().splitlines()))
    assert not different, "if it is meant: WRITE_QUERY_BASELINE=1"
