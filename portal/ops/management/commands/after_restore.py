"""``manage.py after_restore``: update restored records before the cloud is started with them."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.common.errors import ConflictError
from provisioning.hosts import restored


class Command(BaseCommand):
    """Run it once after each restore of the database, before web and workers start."""

    help = (
        "After a restore of the database: raise every number that hosts compare, and end the actions that"
        " the backup shows as unfinished. Run it before web and workers are started; running it twice does no harm."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = restored.after_restore()
        except ConflictError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"Records restored at {done.at:%Y-%m-%d %H:%M:%S} UTC.")
        for line in done.lines:
            self.stdout.write(f"  {line}")
        self.stdout.write("Start the cloud, wait until the hosts are back, and run: manage.py doctor")
