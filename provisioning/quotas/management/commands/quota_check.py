"""``manage.py quota_check``: compare the recorded usage with the records."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from provisioning.quotas.services.repair import examine, repair


class Command(BaseCommand):
    """Counts all limited resources again and compares them with reservations and counters.

    The exit status is 1 when differences remain.
    """

    help = "Count all limited resources again and compare them with the recorded usage."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--repair", action="store_true", help="repair differences; safe while the cloud runs")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print a line for each difference."""
        differences = repair() if options["repair"] else examine()
        for finding in differences:
            self.stdout.write(str(finding))
        if not differences:
            self.stdout.write("Quotas and records agree.")
        elif options["repair"]:
            self.stdout.write(f"Repaired: {len(differences)}.")
        else:
            self.stdout.write(f"Wrong: {len(differences)}. 'manage.py quota_check --repair' repairs them.")
            sys.exit(1)
