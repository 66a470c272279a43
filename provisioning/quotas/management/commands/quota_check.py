"""``manage.py quota_check``: whether what is counted is what there is."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from provisioning.quotas.services.repair import examine, repair


class Command(BaseCommand):
    """Counts every limited thing anew and compares with reservations and counters.

    Ends with 1 when something is wrong and stays so.
    """

    help = "Count every limited thing anew and compare with what the quotas count."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--repair", action="store_true", help="set right what is wrong; safe while the cloud runs")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write a line for each thing that is wrong."""
        found = repair() if options["repair"] else examine()
        for finding in found:
            self.stdout.write(str(finding))
        if not found:
            self.stdout.write("Quotas and records agree.")
        elif options["repair"]:
            self.stdout.write(f"Set right: {len(found)}.")
        else:
            self.stdout.write(f"Wrong: {len(found)}. 'manage.py quota_check --repair' sets it right.")
            sys.exit(1)
