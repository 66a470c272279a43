"""``manage.py rotate_credential_keys``: encrypt the credentials kept for users with a new key."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from provisioning.identity import keys
from provisioning.identity.services.credentials import encrypt_again


class Command(BaseCommand):
    """Adds a key, encrypts every credential with it, and drops the oldest; running processes notice by themselves."""

    help = "Add a key for credentials (EC2, TOTP …), encrypt all of them again, and drop the oldest keys."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take how many keys stay."""
        parser.add_argument("--keep", type=int, default=2, help="keys that stay, the new one included (default 2)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate and say what was encrypted again; nothing is dropped while there is a credential that no key opens."""
        if options["keep"] < 1:
            raise CommandError("--keep must be 1 or more.")
        number = keys.CREDENTIALS.add()
        changed, lost = encrypt_again(keys.CREDENTIALS.newest())
        where = settings.CREDENTIAL_KEYS_DIR
        if lost:
            raise CommandError(
                f"No key in {where} opens these credentials: {', '.join(lost)}. "
                f"Key {number} encrypts from now on, and no key was dropped. "
                "Restore the missing keys from a backup, or delete the credentials; then run this again."
            )
        keys.CREDENTIALS.drop(options["keep"])
        noun = "credential" if changed == 1 else "credentials"
        self.stdout.write(f"Key {number} in {where} encrypts from now on; {changed} {noun} encrypted again.")
