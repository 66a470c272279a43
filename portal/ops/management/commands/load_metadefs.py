"""``manage.py load_metadefs``: load the built-in namespaces of metadata definitions."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.metadefs.services import loading


class Command(BaseCommand):
    """Loads namespaces that were never loaded, as ``bootstrap`` does."""

    help = "Load built-in namespaces of metadata definitions that were never loaded, or restore a built-in namespace."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the namespaces to restore."""
        parser.add_argument("--restore", action="append", default=[], metavar="NAMESPACE",
                            help="restore this built-in namespace; repeatable")  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the loaded or restored namespaces."""
        for name in options["restore"]:
            if not loading.restore(name):
                raise CommandError(f"There is no built-in namespace {name}.")
            self.stdout.write(f"Restored {name}.")
        if not options["restore"]:
            for name in loading.load():
                self.stdout.write(f"Loaded {name}.")
