"""Command line arguments of operators: domains, projects, users, groups and roles by name or id, and passwords; whether
a command can lift the lock of an account.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import CommandError

from provisioning.common.errors import NovellaError
from provisioning.identity.lockout.counters import CACHE
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.selectors import lookups
from provisioning.identity.selectors.lookups import by_id, record_by
from provisioning.identity.services.onboarding import new_password
from provisioning.quotas.limits import DEFAULTS

ELSEWHERE = (
    "With this NOVELLA_CACHE_URL wrong passwords are counted in each process's own memory, which a command does not "
    "reach. A lock ends by itself after NOVELLA_LOCKOUT_SECONDS, when web is started again, or when an operator lifts "
    "it in the admin or the dashboard."
)


def are_shared() -> bool:
    """Whether all processes of the cloud share the counts of wrong passwords."""
    return "LocMem" not in str(settings.CACHES[CACHE]["BACKEND"])


Named = TypeVar("Named", Project, User, Group)
DOMAIN = "default"
"""The id of the default domain."""


@contextmanager
def as_command_errors() -> Iterator[None]:
    """Convert an anticipated error into a CommandError: one message, and status 1."""
    try:
        yield
    except NovellaError as error:
        raise CommandError(error.message) from error


def domain(text: str) -> Domain:
    """Return the domain with this id, otherwise with this name."""
    record = by_id(Domain, text) or record_by(Domain, name=text)
    if record is None:
        raise CommandError(f"There is no domain {text}.")
    return record


def project(text: str, where: Domain) -> Project:
    return _in_domain(Project, text, where)


def user(text: str, where: Domain) -> User:
    return _in_domain(User, text, where)


def group(text: str, where: Domain) -> Group:
    return _in_domain(Group, text, where)


def _in_domain(model: type[Named], text: str, where: Domain) -> Named:
    """Return the record with this name in the domain, otherwise with this id."""
    record = record_by(model, name=text, domain_id=where.id) or by_id(model, text)
    if record is None:
        raise CommandError(f"There is no {model.__name__.lower()} {text} in the domain {where.name}.")
    return record


def role(text: str) -> Role:
    """Return the global role with this name, otherwise the role with this id."""
    every = lookups.roles()
    record = next((each for each in every if each.name == text), None) or by_id(Role, text)
    if record is None:
        known = ", ".join(each.name for each in every[:20])
        raise CommandError(f"There is no role {text}. There are: {known}.")
    return record


def add_password_options(parser: ArgumentParser, *, required: bool) -> None:
    """Define the source of the password, which is never the command line, as other users of the machine can read it."""
    ways = parser.add_mutually_exclusive_group(required=required)
    ways.add_argument("--password-stdin", action="store_true", help="read the password from the first line of stdin")
    ways.add_argument("--generate", action="store_true", help="generate a password and print it once")


def password(options: dict[str, Any]) -> str | None:
    """Return a generated password, or the password on standard input; None if no option requests a password. Raises
    CommandError.
    """
    if options["generate"]:
        return new_password()
    if not options["password_stdin"]:
        return None
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise CommandError("There is no password on stdin.")
    return line


def quota(text: str) -> tuple[str, int]:
    """Read ``cores=40``; -1 is unlimited."""
    name, mark, number = text.partition("=")
    if name not in DEFAULTS:
        raise CommandError(f"There is no quota {name}. There are: {', '.join(DEFAULTS)}.")
    if not mark or not number.lstrip("-").isdigit() or not number.isascii() or len(number) > 10:
        raise CommandError(f"--quota {text} must be a name and a whole number, such as {name}=40.")
    return name, int(number)
