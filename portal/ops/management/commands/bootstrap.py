"""``manage.py bootstrap``: prepare an empty cloud for use; idempotent."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.ops import seed
from provisioning.common.errors import NovellaError
from provisioning.hosts.selectors import enrolled_hosts
from provisioning.identity.encryption import key_records


class Command(BaseCommand):
    """Seeds an empty cloud and writes ``portal/run/bootstrap.json`` for ``bin/up``."""

    requires_system_checks: list[str] = []  # the checks of URLs import every view; migrate runs the checks
    help = "Create the domain, projects, users, flavors, network, image and join tokens that a first launch needs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the data directory, the guest image and the hosts of this machine."""
        parser.add_argument("--data", type=Path, default=None, help="data folder; must be the folder in NOVELLA_DATA")
        parser.add_argument("--guest-image", default="none", help="qcow2 file of the guest image, or none")
        parser.add_argument("--host", action="append", default=[], help="host that will enrol; may be repeated")
        parser.add_argument("--external-network", default="", metavar="NAME", help="physical network of floating IPs")
        parser.add_argument("--external-range", action="append", default=[], metavar="GATEWAY/LENGTH",
                            help="range of the external network, by its gateway's address; repeatable")  # fmt: skip
        parser.add_argument("--simulated", action="store_true", help="the hosts are simulated: any image will do")

    def handle(self, *args: Any, **options: Any) -> None:
        """Seed the cloud, write the file, and print the created records."""
        data = Path(settings.DATA_DIR)
        if options["data"] is not None and options["data"].resolve() != data:
            message = f"--data is {options['data']}, but NOVELLA_DATA is {data}; they must be the same folder."
            raise CommandError(message)
        path = None if options["guest_image"] == "none" else Path(options["guest_image"])
        if path is not None and not path.is_file():
            raise CommandError(f"There is no guest image at {path}.")
        try:
            result = self._seed(path, options)
        except NovellaError as error:
            raise CommandError(error.message) from error
        document = json.dumps(seed.as_dict(result), indent=2) + "\n"
        seed.write(Path(settings.PORTAL_DIR) / "run" / "bootstrap.json", document)
        self.stdout.write(
            f"Made {', '.join(result.made)}." if result.made else "Nothing to create: the cloud is set up."
        )

    def _seed(self, path: Path | None, options: dict[str, Any]) -> seed.Seed:
        key_records.agree()
        result = seed.Seed()
        contexts = seed.people(Path(settings.PORTAL_DIR) / "secrets", result)
        seed.flavors(contexts["admin"], result)
        seed.definitions(result)
        seed.catalogue()
        seed.networks(contexts, result)
        if options["external_network"]:
            seed.outside(contexts, options["external_network"], options["external_range"], result)
        seed.image(contexts["admin"], path, result, simulated=options["simulated"])
        seed.join_tokens(options["host"], enrolled_hosts(), result)
        return result
