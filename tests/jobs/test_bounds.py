"""Each kind of record has a bound, the bounds are there, and the guide says the same.

``WRITE_BOUNDS=1`` writes the guide's table anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from django.apps import apps

from provisioning.jobs import retention
from provisioning.wiring.bounds import BOUNDS, Bound, By, table, value_of
from tests.support.limited import limited

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "operator-guide.md"
BEGIN, END = "<!-- bounds -->\n", "<!-- end of bounds -->\n"


def test_every_model_has_a_bound() -> None:
    labels = {model._meta.label for model in apps.get_models(include_auto_created=True)}
    assert labels == BOUNDS.keys(), "say in provisioning.wiring.bounds what bounds its rows"


def of(kind: By) -> Mapping[str, Bound]:
    return {label: bound for label, bound in BOUNDS.items() if bound.by is kind}


def test_quotas_count_what_they_are_documented_to_bound() -> None:
    for label, bound in of(By.QUOTA).items():
        resources = {limit for limit in bound.limits if isinstance(limit, str) and limit.islower()}
        assert resources, label
        assert resources <= set(limited()[label]), label
    assert limited().keys() == of(By.QUOTA).keys()


def test_what_goes_by_age_is_removed() -> None:
    purged = {kind.model._meta.label for kind in retention.PURGED}
    kept = {label: rule for rules in retention.UNPURGED for label, rule in rules.items()}
    for label in [*of(By.AGE), *(label for label, bound in BOUNDS.items() if "RETENTION_DAYS" in bound.limits)]:
        assert label in purged or "deleted" in kept[label].lower(), label
    assert purged & of(By.OPERATORS).keys() <= {"compute.UsageAudit", "hosts.JoinToken"}


def test_numbers_and_settings_are_there() -> None:
    for label, bound in BOUNDS.items():
        assert bound.words, label
        assert bound.limits or bound.by in (By.PART, By.OPERATORS), label
        for limit in bound.limits:
            value = value_of(limit)
            assert isinstance(value, str) or (isinstance(value, timedelta) and value) or int(value) > 0, limit  # type: ignore[call-overload]


def test_the_guide_has_the_table() -> None:
    text = GUIDE.read_text()
    before, _, rest = text.partition(BEGIN)
    held, _, after = rest.partition(END)
    expected = "\n" + "\n".join(table()) + "\n\n"
    if os.environ.get("WRITE_BOUNDS"):
        GUIDE.write_text(before + BEGIN + expected + END + after)
        return
    assert held == expected, "if it is meant: WRITE_BOUNDS=1"
