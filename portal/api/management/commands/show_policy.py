"""``manage.py show_policy``: print all policy rules in force, as a file to start from or as the documentation page."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.api.openapi import policy_page
from provisioning.identity import policy_file


class Command(BaseCommand):
    """Prints the policy rules as YAML, or as the Markdown of docs/policy.md."""

    help = "Print every rule as a YAML file: defaults as comments, and the rules that an operator has changed."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add ``--file`` and ``--markdown``."""
        parser.add_argument("--file", type=Path, help="a YAML file (default: the one in use)")
        parser.add_argument("--markdown", action="store_true", help="print docs/policy.md instead")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["markdown"]:
            self.stdout.write(policy_page.markdown(), ending="")
            return
        try:
            found = policy_file.read(Path(options["file"] or settings.POLICY_FILE))
        except policy_file.PolicyFileError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(policy_page.sample(found), ending="")
