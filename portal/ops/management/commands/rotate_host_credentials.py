"""``manage.py rotate_host_credentials``: ask hosts for new credentials, over their links."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.common.errors import NotFoundError
from provisioning.hosts import credentials


class Command(BaseCommand):
    """Sends requests. Connected agents respond automatically, all other agents when they connect again."""

    help = "Request new credentials from hosts. The old ones are valid until the agents use the new ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the names of hosts."""
        parser.add_argument("hosts", nargs="*", metavar="HOST", help="names of hosts (default: all)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            renewed = credentials.renew(options["hosts"])
        except NotFoundError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"Requested new credentials from: {', '.join(renewed) or 'no host'}.")
