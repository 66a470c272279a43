"""``manage.py create_project``: create a project."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from portal.ops import named
from provisioning.identity.services.projects import create_project
from provisioning.network.services import allocate_topology
from provisioning.quotas.services.limits import set_limit


class Command(BaseCommand):
    """Creates a project with its limits and its network, all or nothing."""

    help = "Create a project."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the project's name, parent and limits."""
        parser.add_argument("name")
        parser.add_argument("--domain", default=named.DOMAIN, help="name or id (default %(default)s)")
        parser.add_argument("--description", default="")
        parser.add_argument("--parent", help="parent project in the same domain")
        parser.add_argument(
            "--quota",
            action="append",
            default=[],
            metavar="NAME=NUMBER",
            help="cores=40; -1: unlimited; repeatable",
        )

        parser.add_argument(
            "--with-network",
            action="store_true",
            help="also create a network, and a router to the default external network",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        domain = named.domain(options["domain"])
        limits = dict(named.quota(text) for text in options["quota"])
        parent = named.project(options["parent"], domain) if options["parent"] else None
        with named.as_command_errors(), transaction.atomic():
            project = create_project(domain, options["name"], parent=parent, description=options["description"])
            for resource, limit in limits.items():
                set_limit(project.id, resource, limit)
            if options["with_network"]:
                allocate_topology(project.id)
        self.stdout.write(f"Created project {project.name} ({project.id.hex}).")
        if options["with_network"]:
            self.stdout.write("It has a network and a router of its own.")
