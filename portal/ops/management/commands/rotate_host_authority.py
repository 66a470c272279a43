"""``manage.py rotate_host_authority``: replace the certificate authority of hosts."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.common.errors import ConflictError
from provisioning.hosts import certificates


class Command(BaseCommand):
    """Shows the state of the rotation, or runs its next step."""

    help = (
        "Show the certificate authority of hosts, or replace it in three steps: begin, switch, finish. Between the "
        "steps, stop and start guests that use volumes of other hosts: a running guest keeps its certificates."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("step", nargs="?", choices=("begin", "switch", "finish"), help="default: show")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._do(options["step"])
        except ConflictError as error:
            raise CommandError(error.message) from error
        for state, each in sorted(certificates.authorities().items()):
            self.stdout.write(f"{state}: created {each.created_at:%Y-%m-%d}, expires {each.ends_at:%Y-%m-%d}")
        behind = certificates.hosts_behind()
        self.stdout.write(f"Hosts that do not have this yet: {', '.join(behind) or 'none'}.")

    def _do(self, step: str | None) -> None:
        if step == "begin":
            certificates.begin()
        elif step == "finish":
            certificates.finish()
        elif step == "switch":
            absent = certificates.switch()
            if absent:
                names = ", ".join(absent)
                self.stderr.write(f"These hosts do not answer. They cannot share volumes until they are back: {names}.")
