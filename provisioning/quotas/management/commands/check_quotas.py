"""``manage.py check_quotas``: whether what is counted is what is held."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from provisioning.quotas import selectors, services


class Command(BaseCommand):
    """Compares each project's counters with what they are the sums of; ends with 1 when one is wrong and stays so."""

    help = "Compare the counters of quotas with what is held."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take whether to repair."""
        parser.add_argument("--repair", action="store_true", help="set wrong counters right")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write a line for each wrong counter."""
        wrong = selectors.differences()
        for found in wrong:
            self.stdout.write(
                f"Project {found.project_id.hex}, {found.resource}: counted {found.counted[0]} in use and "
                f"{found.counted[1]} reserved, held {found.held[0]} and {found.held[1]}."
            )
        if not wrong:
            self.stdout.write("Every counter is right.")
        elif options["repair"]:
            self.stdout.write(f"Counters set right: {services.repair()}.")
        else:
            sys.exit(1)
