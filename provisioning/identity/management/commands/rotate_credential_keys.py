"""``manage.py rotate_credential_keys``: encrypt stored secrets with a new credential key."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.identity.encryption import key_records, keys, rotation
from provisioning.identity.encryption.encrypted import encrypt_all_again


class Command(BaseCommand):
    """Adds a key, encrypts everything with it, and deletes the oldest keys. Running processes read new keys
    automatically.
    """

    help = (
        "Add a key for credentials (EC2, TOTP …) and for passwords that guests have not received yet, encrypt"
        " all of them again, and drop the oldest keys."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options for the number of keys and the step."""
        rotation.add_arguments(parser, keep=2)

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate, and print the numbers of encrypted secrets. No key is deleted while a secret cannot be decrypted."""
        if options["keep"] < 1:
            raise CommandError("--keep must be 1 or more.")
        number = rotation.step(key_records.CREDENTIALS, keys.CREDENTIALS, options, self.stdout.write)
        if number is None:
            return
        changed, lost = encrypt_all_again(keys.CREDENTIALS.newest())
        where = keys.CREDENTIALS.folder
        if lost:
            raise CommandError(
                f"No key in {where} opens these: {', '.join(lost)}. "
                f"Key {number} encrypts from now on, and no key was dropped. "
                "Restore the missing keys from a backup, or delete the credentials, rebuild or delete the servers, "
                "and wait for the end of the commands; then run this again."
            )
        keys.CREDENTIALS.drop(options["keep"])
        counts = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in changed.items())
        self.stdout.write(f"Key {number} in {where} encrypts from now on; encrypted again: {counts}.")
