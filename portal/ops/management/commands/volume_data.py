"""``manage.py volume_data``: choose a volume's data after a migration whose end its host never reported."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.common.context import system_context
from provisioning.common.errors import NovellaError
from provisioning.volumes.services.updates.migrate import keep_data


class Command(BaseCommand):
    """Keeps one of the two copies and deletes the other."""

    help = "Keep the new or the old data of a volume whose live move has no reported result."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the volume and the choice."""
        parser.add_argument("volume", help="its id")
        parser.add_argument("--keep", choices=("new", "old"), required=True, help="which data it has from now on")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            volume = keep_data(system_context(), options["volume"], new=options["keep"] == "new")
        except NovellaError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"Volume {volume.id} has its {options['keep']} data and is {volume.status}.")
