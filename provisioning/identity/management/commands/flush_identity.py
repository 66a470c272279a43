"""``manage.py flush_identity``: delete expired records."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.identity.services.flush import flush


class Command(BaseCommand):
    """Deletes expired revocations, sessions, application credentials and trusts; a worker also does so every hour."""

    help = "Remove expired revocations, sessions, application credentials and trusts; safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the option for keeping recently expired application credentials and trusts."""
        what = "keep application credentials and trusts that expired in the last DAYS days"
        parser.add_argument("--days", type=int, default=0, help=what)

    def handle(self, *args: Any, **options: Any) -> None:
        """Delete, and print the number of each kind."""
        if not 0 <= options["days"] <= 36_500:
            raise CommandError("--days must be from 0 to 36500.")
        removed = flush(credentials_after=timedelta(days=options["days"]))
        self.stdout.write("Removed: " + ", ".join(f"{number} {kind}" for kind, number in removed.items()) + ".")
