"""``manage.py grant_role``: assign a role to a user or a group."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.ops import named
from provisioning.identity.selectors.members import has_grant
from provisioning.identity.services.assignments import grant


class Command(BaseCommand):
    """Assigns a role on a project, on a domain or on the system; idempotent."""

    help = "Assign a role on a project, on a domain or on the system to a user or a group; safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the role, the actor and the target."""
        parser.add_argument("role")
        who = parser.add_mutually_exclusive_group(required=True)
        who.add_argument("--user")
        who.add_argument("--group")
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--project")
        where.add_argument("--domain")
        where.add_argument("--system", action="store_true", help="the whole cloud")
        parser.add_argument(
            "--inherited", action="store_true", help="on all projects below this one, but not on itself"
        )
        parser.add_argument("--user-domain", "--group-domain", default=named.DOMAIN, help="(default %(default)s)")
        parser.add_argument("--project-domain", default=named.DOMAIN, help="(default %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["system"] and options["inherited"]:
            raise CommandError("Nothing inherits from the system: leave out --inherited.")
        role, home = named.role(options["role"]), named.domain(options["user_domain"])
        actor: dict[str, Any] = (
            {"user": named.user(options["user"], home)}
            if options["user"]
            else {"group": named.group(options["group"], home)}
        )
        target: dict[str, Any] = {"system": True}
        if options["project"]:
            target = {"project": named.project(options["project"], named.domain(options["project_domain"]))}
        elif options["domain"]:
            target = {"domain": named.domain(options["domain"])}
        with named.as_command_errors():
            known = has_grant(role, **actor, **target, inherited=options["inherited"])
            grant(role, **actor, **target, inherited=options["inherited"])
        (who,), (where,) = actor.values(), target.values()
        place = "the system" if options["system"] else where.name
        has, already = ("had", " already") if known else ("has", "")
        self.stdout.write(f"{who.name} {has} the role {role.name} on {place}{already}.")
