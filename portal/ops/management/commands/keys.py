"""``manage.py keys``: the keys of all machines, by fingerprint."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.common.errors import NovellaError
from provisioning.identity.encryption import key_records
from provisioning.identity.models import KeyHolder, KeyRecord


class Command(BaseCommand):
    """Compares the keys of this machine with the keys of the cloud, as each process does when it starts."""

    help = "Compare the keys of this machine with those of the cloud, and list the machines that have them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--accept", action="store_true", help="record the keys of this machine as the cloud's")
        parser.add_argument("--forget", metavar="MACHINE", help="forget the keys of a machine that no longer exists")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the keys. The exit status is 1 if the keys differ."""
        if options["forget"] and not key_records.forget(options["forget"]):
            raise CommandError(f"There are no keys of a machine {options['forget']}.")
        if options["accept"]:
            key_records.accept()
        try:
            key_records.agree()
        except NovellaError as error:
            raise CommandError(error.message) from error
        for record in KeyRecord.objects.order_by("kind"):
            self.stdout.write(f"{record.kind}: {record.current}")
            for holder in KeyHolder.objects.filter(kind=record.kind).order_by("machine"):
                self.stdout.write(
                    f"  {holder.machine}: {', '.join(holder.fingerprints)} ({holder.seen_at:%Y-%m-%d %H:%M})"
                )
