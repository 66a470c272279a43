"""``manage.py check_policy [FILE]``: check a policy file and show its changes."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from provisioning.identity import policy_file
from provisioning.identity.policies import RULES


class Command(BaseCommand):
    """Lists all problems of the file, or the rules that differ from the defaults."""

    help = "Check a policy file: list its problems, or the rules that differ from the defaults."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, help="a YAML file (default: the one in use)")

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(options["file"] or settings.POLICY_FILE)
        if options["file"] and not path.is_file():
            raise CommandError(f"There is no file {path}.")
        try:
            policy = policy_file.read(path)
        except policy_file.PolicyFileError as error:
            lines = "\n".join(f"  {problem}" for problem in error.problems)
            raise CommandError(f"{path} cannot be used:\n{lines}") from error
        for name in sorted(policy_file.unused(policy)):
            self.stdout.write(f"{name}\n  has no effect: this cloud does not have the operations of this rule.")
        changed = policy_file.differing(policy)
        for name, check in sorted(changed.items()):
            before = RULES[name].check if name in RULES else "(a rule of the file's own)"
            self.stdout.write(f"{name}\n  default: {before}\n  now:     {check}")
        there = "" if path.exists() else " (the file does not exist)"
        self.stdout.write(f"{path}{there}: {len(changed)} of {len(RULES)} rules differ from the defaults.")
