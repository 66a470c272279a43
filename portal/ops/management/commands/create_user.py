"""``manage.py create_user``: create or update a user."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from portal.ops import named
from provisioning.identity.models import Domain, Project, User
from provisioning.identity.selectors.lookups import record_by
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.users import UserFields, create_user, update_user


class Command(BaseCommand):
    """Creates a user with a password and roles, all or nothing."""

    help = "Create a user, or with --update change one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the user and its roles."""
        parser.add_argument("name")
        parser.add_argument("--domain", default=named.DOMAIN, help="name or id (default %(default)s)")
        parser.add_argument("--project", help="project of the domain on which the user gets the roles")
        parser.add_argument("--role", action="append", default=[], help="role on the project; may be repeated")
        parser.add_argument("--default-project", help="the user's default project; the --project if not specified")
        parser.add_argument("--email")
        parser.add_argument("--description")
        parser.add_argument("--update", action="store_true", help="update the user if it exists: only the given fields")
        named.add_password_options(parser, required=False)

    def handle(self, *args: Any, **options: Any) -> None:
        """Create or update the user, and print whether it was created or updated."""
        domain = named.domain(options["domain"])
        with named.as_command_errors():
            known = record_by(User, name=options["name"], domain_id=domain.id)
        if known is not None and not options["update"]:
            raise CommandError(f"There is a user {known.name} in the domain {domain.name}. --update changes it.")
        if known is None and not (options["generate"] or options["password_stdin"]):
            raise CommandError("A new user needs a password: use --password-stdin or --generate.")
        if bool(options["role"]) != bool(options["project"]):
            raise CommandError("--project and --role belong together.")
        with named.as_command_errors(), transaction.atomic():
            user, password = self._store(known, domain, options)
        self.stdout.write(f"{'Changed' if known else 'Made'} user {user.name} ({user.id.hex}).")
        if options["generate"]:
            self.stdout.write(f"Password: {password}")

    def _store(self, known: User | None, domain: Domain, options: dict[str, Any]) -> tuple[User, str | None]:
        project = named.project(options["project"], domain) if options["project"] else None
        roles = [named.role(text) for text in options["role"]]
        fields = self._fields(known, domain, project, options)
        password = named.password(options)
        if password is not None:
            fields["password"] = password
        if known is None:
            user = create_user(domain, options["name"], **fields)
        else:
            user = known
            update_user(user, **fields)
        for role in roles:
            grant(role, user=user, project=project)
        return user, password

    def _fields(
        self, known: User | None, domain: Domain, project: Project | None, options: dict[str, Any]
    ) -> UserFields:
        fields: UserFields = {}
        if options["email"] is not None:
            fields["email"] = options["email"]
        if options["description"] is not None:
            fields["description"] = options["description"]
        if options["default_project"]:
            fields["default_project"] = named.project(options["default_project"], domain)
        elif known is None and project is not None:
            fields["default_project"] = project
        return fields
