"""``manage.py doctor``: report faults of the cloud."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.common.errors import InvalidInputError
from provisioning.doctor.checks import CHECKS
from provisioning.doctor.examinations import runs
from provisioning.doctor.examinations.runs import run
from provisioning.doctor.finding import number
from provisioning.doctor.models import DoctorRun


class Command(BaseCommand):
    """Examines the cloud. The exit status is 0 if there is no fault or all faults were repaired, otherwise 1; notes are
    not faults.
    """

    help = "Compare records, quotas, queue and hosts with each other, and show the differences."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the checks, and whether to repair."""
        parser.add_argument("--repair", action="store_true", help="repair the findings; safe while the cloud runs")
        parser.add_argument("--check", action="append", metavar="NAME", help="run only this check; repeatable")
        parser.add_argument("--list", action="store_true", help="list the checks without running them")
        parser.add_argument("--json", action="store_true", help="write one JSON object")
        parser.add_argument(
            "--pause", type=float, default=None, help="seconds between the two examinations (default: 3)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Examine the cloud, and print a line for each finding."""
        if options["list"]:
            self.stdout.write("\n".join(CHECKS))
            return
        if options["pause"] is not None and options["pause"] < 0:
            raise CommandError("--pause must not be negative.")
        try:
            row = run("command", names=options["check"], repair=options["repair"], pause=options["pause"])
        except InvalidInputError as error:
            raise CommandError(error.message) from error
        left = runs.left(row)
        if options["json"]:
            self.stdout.write(json.dumps(_report(row, left), indent=1))
        else:
            self._print(row, left, repair=options["repair"])
        if left:
            sys.exit(1)

    def _print(self, row: DoctorRun, left: int, *, repair: bool) -> None:
        for each in row.findings:
            self.stdout.write(f"{each['severity']:7} {each['check']}: {each['subject']}: {each['sentence']}")
            if each["repaired"]:
                self.stdout.write(f"        Repaired: {each['repaired']}")
            elif each["repair"] and not repair:
                self.stdout.write(f"        --repair would: {each['repair']}")
        if not row.errors + row.warnings:
            self.stdout.write(f"{number(len(row.checks), 'check')}: all is well.")
        else:
            self.stdout.write(f"Found: {row.errors + row.warnings}. Repaired: {row.repaired}. Remaining: {left}.")


def _report(row: DoctorRun, left: int) -> dict[str, Any]:
    return {
        "started_at": row.started_at.isoformat(),
        "finished_at": row.finished_at.isoformat(),
        "checks": row.checks,
        "errors": row.errors,
        "warnings": row.warnings,
        "notes": row.notes,
        "repaired": row.repaired,
        "left": left,
        "findings": row.findings,
    }
