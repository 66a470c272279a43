"""``manage.py qworker --topics scheduler,conductor``: one worker group of the queue."""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from provisioning.common.errors import NovellaError
from provisioning.jobs import registry
from provisioning.jobs.workers.master import run_group


class Command(BaseCommand):
    """Runs until SIGTERM or SIGINT, then finishes the running jobs; exit status 70 requests a restart."""

    help = "Run jobs of the queue."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--topics", help="comma-separated topics to serve (default: all)")
        parser.add_argument("--workers", type=int, default=settings.WORKERS, help="number of concurrent jobs")
        parser.add_argument("--periodic", action="store_true", help="also run periodic jobs")

    def handle(self, *args: Any, **options: Any) -> None:
        known = {job.topic for job in registry.jobs.values()}
        topics = [name for name in (options["topics"] or "").split(",") if name] or sorted(known)
        unknown = [name for name in topics if name not in known]
        if unknown:
            raise CommandError(f"No job is registered for {', '.join(unknown)}; there are: {', '.join(sorted(known))}.")
        if not 1 <= options["workers"] <= 64:
            raise CommandError("--workers must be from 1 to 64.")
        try:
            for check in registry.START_CHECKS:
                check()
        except NovellaError as error:
            raise CommandError(error.message) from error
        sys.exit(run_group(topics, options["workers"], periodic=options["periodic"]))
