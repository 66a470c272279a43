"""``manage.py rotate_token_keys``: issue tokens with a new key from now on."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from provisioning.identity import keys


class Command(BaseCommand):
    """Adds a key and drops the oldest; running processes notice by themselves."""

    help = "Add a key for tokens and drop the oldest. Tokens of a dropped key end at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take how many keys stay."""
        parser.add_argument("--keep", type=int, default=3, help="keys that stay, the new one included (default 3)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["keep"] < 1:
            raise CommandError("--keep must be 1 or more.")
        number = keys.rotate(options["keep"])
        self.stdout.write(f"Key {number} in {settings.TOKEN_KEYS_DIR} issues tokens from now on.")
