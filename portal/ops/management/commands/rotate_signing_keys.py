"""``manage.py rotate_signing_keys``: sign sessions and the queue with new keys from the next start on."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from provisioning.identity.encryption import key_records, signing_keys
from provisioning.identity.models import KeyRecord

KEYS = {"NOVELLA_SECRET_KEY": "secret_key", "NOVELLA_BUS_KEY": "bus_key"}


class Command(BaseCommand):
    """Adds new keys before the previous keys, which are still accepted. Processes read the keys when they start."""

    help = "Add a key for sessions and one for the queue; earlier keys are accepted until they are dropped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the number of keys to keep."""
        parser.add_argument("--keep", type=int, default=2, help="keys to keep, including the new one (default 2)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate the keys in files; keys in the environment are left to the operator."""
        if options["keep"] < 1:
            raise CommandError("--keep must be 1 or more.")
        fixed = [name for name in KEYS if os.environ.get(name)]
        if fixed:
            raise CommandError(
                f"{' and '.join(fixed)} come from the environment: put the new key there and the old one into the"
                " setting of that name with _FALLBACKS."
            )
        others = sorted(
            {*key_records.other_machines(key_records.SESSIONS), *key_records.other_machines(key_records.QUEUE)}
        )
        if others:
            raise CommandError(
                f"Other machines use these keys, too: {', '.join(others)}. Set the keys by the environment of all"
                " machines instead, and add each new key to its setting _FALLBACKS first."
            )
        for name in KEYS.values():
            signing_keys.add(Path(settings.PORTAL_DIR) / "secrets" / name, options["keep"])
        if options["keep"] == 1:  # no process has the recorded keys any longer
            KeyRecord.objects.filter(kind__in=[key_records.SESSIONS, key_records.QUEUE]).delete()
        self.stdout.write("New keys sign from the next start of web and workers on; restart them now.")
