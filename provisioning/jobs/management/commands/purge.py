"""``manage.py purge``: delete expired records."""

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from provisioning.jobs import retention


class Command(BaseCommand):
    """Deletes expired records, such as those of deleted servers and images; a worker also does so every ten minutes."""

    help = "Remove records of deleted servers, images and others, and old history; safe while the cloud runs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count what would be removed, for each kind")
        when = parser.add_mutually_exclusive_group()
        when.add_argument(
            "--before", metavar="DATE", help="records that ended before this date (2026-01-31, or with a time, UTC)"
        )
        when.add_argument("--days", type=int, help="records that ended DAYS days ago; default NOVELLA_RETENTION_DAYS")

    def handle(self, *args: Any, **options: Any) -> None:
        """Purge, and print a line for each kind."""
        before = _before(options["before"], options["days"])
        counts = retention.count(before) if options["dry_run"] else retention.purge(before)
        verb = "Would be removed" if options["dry_run"] else "Removed"
        self.stdout.write(f"{verb}, of records that ended before {before:%Y-%m-%d %H:%M} UTC:")
        for name, many in counts.items():
            self.stdout.write(f"  {many:>10} {name}")


def _before(date: str | None, days: int | None) -> datetime:
    now = timezone.now()
    if date is not None:
        return min(_read(date), now)
    if days is not None:
        if not 0 <= days <= 36_500:
            raise CommandError("--days must be from 0 to 36500.")
        return now - timedelta(days=days)
    before = retention.limit(now)
    if before is None:
        raise CommandError("NOVELLA_RETENTION_DAYS is 0: nothing is purged. Specify --days or --before.")
    return before


def _read(text: str) -> datetime:
    try:
        moment = parse_datetime(text) if parse_date(text) is None else parse_datetime(f"{text}T00:00")
    except ValueError:
        moment = None
    if moment is None:
        raise CommandError(f"{text!r} is not a date: write 2026-01-31 or 2026-01-31T12:00.")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
