"""``manage.py unlock_user``: lift the lock after too many wrong passwords."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.ops import named
from provisioning.identity.lockout.lockout import lift_lockout, lockout_of


class Command(BaseCommand):
    """Unlocks a user immediately."""

    help = "Remove the lock after too many wrong passwords; the password is unchanged."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--domain", default=named.DOMAIN, help="name or id (default %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Lift the lock, if this process can."""
        user = named.user(options["name"], named.domain(options["domain"]))
        if not named.are_shared():
            raise CommandError(named.ELSEWHERE)
        until = lockout_of(user)
        lift_lockout(user)
        if until is None:
            self.stdout.write(f"{user.name} was not locked out.")
        else:
            self.stdout.write(f"{user.name} was locked out until {until:%Y-%m-%d %H:%M:%S} UTC and is no more.")
