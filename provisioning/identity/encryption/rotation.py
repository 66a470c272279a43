"""Key rotation in two steps, to copy the key to all machines before it is used; a single machine needs one step."""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping

from django.core.management.base import CommandError

from provisioning.identity.encryption import key_records
from provisioning.identity.encryption.keys import KeyFolder


def add_arguments(parser: ArgumentParser, *, keep: int) -> None:
    """Add the options for the step and the number of keys."""
    parser.add_argument("--keep", type=int, default=keep, help=f"keys to keep, including the new one (default {keep})")
    steps = parser.add_mutually_exclusive_group()
    steps.add_argument("--add", action="store_true", help="step 1 of several machines: add a key that is not used yet")
    steps.add_argument("--use", action="store_true", help="step 2, on each machine: use the key that all of them have")


def step(kind: str, folder: KeyFolder, options: Mapping[str, object], report: Callable[[str], object]) -> int | None:
    """Carry out the step that ``options`` select; return the number of the key that encrypts from now on, or None after
    ``--add``.

    Raises CommandError if another machine lacks the new key.
    """
    _agree()
    others = key_records.other_machines(kind)
    if options["add"]:
        number = folder.add_next()
        _agree()
        report(
            f"Key {number} of {folder.folder} is not used yet. Copy the folder to {', '.join(others) or 'all machines'}"
            " and run manage.py keys there, then this command with --use on each."
        )
        return None
    if options["use"]:
        fresh = folder.fingerprints()[-1]
        if behind := key_records.other_machines(kind, without=fresh):
            raise CommandError(f"{', '.join(behind)} does not have the new key: copy it, and run manage.py keys there.")
        number_in_use = folder.use_next()
        if number_in_use is None:
            raise CommandError(f"There is no key in {folder.folder} that is not used yet: begin with --add.")
        _agree()
        return number_in_use
    if others:
        raise CommandError(
            f"{', '.join(others)} also uses these keys and could not decrypt with a new one: run this with --add,"
            " copy the folder, then with --use; or run manage.py keys --forget MACHINE for a machine that is lost."
        )
    number = folder.add()
    _agree()
    return number


def _agree() -> None:
    try:
        key_records.agree()
    except key_records.KeyMismatchError as error:
        raise CommandError(error.message) from error
