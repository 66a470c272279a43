"""What the tests of the doctor ask it, and what it finds."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

from django.core.management import call_command

from provisioning.compute.models import Instance
from provisioning.doctor.examinations.examination import examine, treat
from provisioning.doctor.finding import Finding
from tests.support import invariants

OLD = timedelta(hours=1)


def look(*names: str) -> list[Finding]:
    return examine(names, pause=0)


def only(check: str) -> Finding:
    (result,) = look(check)
    return result


def repaired(check: str) -> str:
    """Mend the one thing that a check finds; it finds nothing any more."""
    (treated,) = treat([only(check)], repair=True)
    assert treated.repaired
    assert look(check) == []
    invariants.check()
    return treated.repaired


def broken(row: Instance, **columns: Any) -> None:
    Instance.objects.filter(id=row.id).update(**columns)


def command(*arguments: str) -> tuple[str, int]:
    out = StringIO()
    try:
        call_command("doctor", "--pause", "0", *arguments, stdout=out)
    except SystemExit as end:
        return out.getvalue(), int(str(end.code))
    return out.getvalue(), 0
