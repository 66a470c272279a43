"""``manage.py import_roster``: create users, projects, roles, groups and quotas from a CSV file."""

from __future__ import annotations

import csv
import io
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from provisioning.rosters.file import LARGEST, Problems, read
from provisioning.rosters.plan import NewUser, Plan


class Command(BaseCommand):
    """Imports a roster, all or nothing; idempotent."""

    help = (
        "Create users, projects, roles, groups and quotas from a CSV file with the columns user, domain, email, "
        "password, project, roles, groups, and quota_cores and so on; one row for each user and project."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the file and the options of the import."""
        parser.add_argument("file", help="CSV file in UTF-8, with commas, semicolons or tabs; - for stdin")
        parser.add_argument("--dry-run", action="store_true", help="only report what would be created and changed")
        parser.add_argument(
            "--passwords-file", type=Path, help="new file for generated passwords (CSV, mode 0600), not stdout"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Read, plan and run the import, and print each step; on errors print all of them and change nothing."""
        problems, keep = Problems(), not options["dry_run"]
        rows = read(_data(options["file"]), problems)
        plan = Plan(rows, problems)
        _refuse(problems)
        path: Path | None = options["passwords_file"] if keep and plan.generated else None
        if keep:
            plan.prepare()
        with _Passwords(path) as file:
            plan.carry_out(lambda: file.write(plan.generated), keep=keep)
            _refuse(problems)
            file.keep()
        for step in plan.steps:
            self.stdout.write(f"line {step.line}: {step.words}")
        self._conclude(plan, keep=keep, path=path)

    def _conclude(self, plan: Plan, *, keep: bool, path: Path | None) -> None:
        number = len(plan.steps)
        steps = f"{number} {'change' if number == 1 else 'changes'}"
        if not number:
            self.stdout.write("Nothing to change.")
        elif not keep:
            self.stdout.write(f"{steps} to apply. This was a dry run: nothing was changed.")
        else:
            self.stdout.write(f"{steps} applied.")
            if path is not None:
                self.stdout.write(f"The new passwords are in {path}.")
            elif plan.generated:
                self.stdout.write("New passwords, which are shown only now:")
                self.stdout.write(_table(plan.generated), ending="")


class _Passwords:
    """The file for new passwords: created before the commit, and deleted if nothing was committed."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._kept, self._descriptor = path, False, -1

    def __enter__(self) -> _Passwords:
        if self._path is not None:
            try:
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except OSError as error:
                raise CommandError(f"Cannot create {self._path}: {error.strerror}. Nothing was changed.") from error
        return self

    def write(self, users: list[NewUser]) -> None:
        if self._path is None:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(_table(users))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CommandError(f"Cannot write {self._path}: {error.strerror}. Nothing was changed.") from error

    def keep(self) -> None:
        self._kept = True

    def __exit__(self, *error: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._path is not None and not self._kept:
            self._path.unlink(missing_ok=True)


def _table(users: list[NewUser]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", "domain", "password"])
    writer.writerows([user.name, user.domain.name, user.password] for user in users)
    return text.getvalue()


def _data(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(LARGEST + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise CommandError(f"Cannot read {name}: {error.strerror}.") from error


def _refuse(problems: Problems) -> None:
    if problems:
        noun = "error" if len(problems) == 1 else "errors"
        raise CommandError(f"{len(problems)} {noun}; nothing was changed.\n{problems}")
