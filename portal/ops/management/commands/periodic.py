"""``manage.py periodic``: periodic jobs, their last run and its result."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from provisioning.jobs.selectors import Periodic, periodic_work

LINE = "{:<36} {:>8} {:<20} {:>10}  {:<14} {}"


class Command(BaseCommand):
    """Lists the jobs; the exit status is 1 if one is overdue or has failed."""

    help = "List the periodic work: when each job last ran, how long that took, whether it failed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="a list of objects")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print one line for each job."""
        work = periodic_work(timezone.now())
        if options["json"]:
            self.stdout.write(json.dumps([asdict(job) for job in work], default=str, indent=2))
        else:
            self.stdout.write(LINE.format("JOB", "EVERY", "LAST RUN (UTC)", "TOOK", "STATE", "HOLDER OR ERROR"))
            for job in work:
                self.stdout.write(_line(job).rstrip())
        if any(job.overdue or job.last_error for job in work):
            raise SystemExit(1)


def _line(job: Periodic) -> str:
    last = f"{job.last_run_at:%Y-%m-%d %H:%M:%S}" if job.last_run_at else "never"
    took = f"{job.last_seconds:.3f} s" if job.last_seconds is not None else ""
    state = "is being done" if job.running_since else "done"
    if job.last_error:
        state = "failed"
    if job.overdue:
        state = "overdue"
    return LINE.format(job.name, f"{job.every:g} s", last, took, state, job.last_error or job.holder)
