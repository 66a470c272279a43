"""``manage.py reset_password``: restore access for a user, also for an administrator."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from portal.ops import named
from provisioning.identity.lockout.lockout import lift_lockout
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.users import set_user_enabled


class Command(BaseCommand):
    """Sets a password without the current password; all sessions of the user are ended."""

    help = "Set a user's password, lift the lock and, with --enable, enable the user; ends the user's sessions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the user and the source of the password."""
        parser.add_argument("name")
        parser.add_argument("--domain", default=named.DOMAIN, help="name or id (default %(default)s)")
        parser.add_argument("--enable", action="store_true", help="enable the user too")
        named.add_password_options(parser, required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        """Set the password, and print other obstacles to a sign-in of the user."""
        user = named.user(options["name"], named.domain(options["domain"]))
        password = named.password(options)
        with named.as_command_errors(), transaction.atomic():
            set_password(user, password, by_admin=True)
            if options["enable"]:
                set_user_enabled(user, enabled=True)
        self.stdout.write(f"Set the password of {user.name} ({user.id.hex}).")
        if options["generate"]:
            self.stdout.write(f"Password: {password}")
        if not user.enabled:
            self.stdout.write(f"{user.name} is disabled: --enable allows the user to sign in.")
        if named.are_shared():
            lift_lockout(user)
        else:
            self.stdout.write(named.ELSEWHERE)
