"""``manage.py rotate_token_keys``: issue tokens with a new key."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.identity.encryption import key_records, keys, rotation


class Command(BaseCommand):
    """Adds a key and deletes the oldest keys. Running processes read new keys automatically."""

    help = "Add a key for tokens and drop the oldest. Tokens of a dropped key become invalid immediately."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options for the number of keys and the step."""
        rotation.add_arguments(parser, keep=3)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["keep"] < 1:
            raise CommandError("--keep must be 1 or more.")
        number = rotation.step(key_records.TOKENS, keys.TOKENS, options, self.stdout.write)
        if number is None:
            return
        keys.TOKENS.drop(options["keep"])
        self.stdout.write(f"Key {number} in {keys.TOKENS.folder} issues tokens from now on.")
