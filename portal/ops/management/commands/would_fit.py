"""``manage.py would_fit``: the number of servers of a flavor that could be scheduled now, and their hosts."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.ops import named
from portal.ops.tables import table
from provisioning.common.context import RequestContext, system_context
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors
from provisioning.compute.launch import dry_run
from provisioning.compute.launch.checks import MAX_COUNT
from provisioning.compute.launch.dry_run import Fit, WouldFit
from provisioning.compute.models import Flavor
from provisioning.images import selectors as images

WRONG = 2
"""Exit status for an invalid request."""


class Command(BaseCommand):
    """Queries the scheduler and creates nothing."""

    help = "Show how many servers of a flavor could be scheduled now, and on which hosts; nothing is created."
    epilog = "Exit status: 0 if all requested servers fit, 1 if not, 2 for invalid arguments."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the flavor, other parameters of a launch, and the output format."""
        parser.epilog = self.epilog
        parser.add_argument("--flavor", required=True, help="name or id")
        parser.add_argument("--image", help="name or id")
        parser.add_argument("--zone", default="", help="availability zone (default: any)")
        parser.add_argument("--host", default="", help="the only host that will do")
        parser.add_argument(
            "--project",
            default="admin",
            help="name or id of the project whose images and server groups are used (default %(default)s)",
        )
        parser.add_argument("--project-domain", default=named.DOMAIN, help="(default %(default)s)")
        parser.add_argument(
            "--count", type=int, default=1, metavar="N", help=f"the number of servers, 1 to {MAX_COUNT} (default 1)"
        )
        parser.add_argument(
            "--hint",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="scheduler hint, such as group=ID; repeatable",
        )
        parser.add_argument("--json", action="store_true", help="answer for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        """Query, print, and exit with the status."""
        try:
            fit = self._ask(options)
        except NovellaError as error:
            raise CommandError(error.message, returncode=WRONG) from error
        except CommandError as error:
            raise CommandError(str(error), returncode=WRONG) from error
        self.stdout.write(as_json(fit) if options["json"] else astable(fit, options["flavor"]))
        if fit.fits < fit.asked:
            sys.exit(1)

    def _ask(self, options: dict[str, Any]) -> Fit:
        project = named.project(options["project"], named.domain(options["project_domain"]))
        context = replace(system_context(), project_id=project.id, project_name=project.name)
        flavor = flavor_of(context, options["flavor"])
        request = WouldFit(
            flavor_ref=flavor.flavorid,
            image_id=image_of(context, options["image"]) if options["image"] else None,
            availability_zone=options["zone"],
            hints=hints_of(options["hint"]),
            requested_host=options["host"],
            count=options["count"],
        )
        return dry_run.would_fit(context, request)


def flavor_of(context: RequestContext, text: str) -> Flavor:
    """Return the flavor with this name or id."""
    flavor = next((each for each in selectors.flavors_for(context) if text in {each.name, each.flavorid}), None)
    if flavor is None:
        raise CommandError(f"There is no flavor {text}.")
    return flavor


def image_of(context: RequestContext, text: str) -> str:
    """Return the id of the image with this name, otherwise the text itself."""
    listed = [image for image in images.usable_images_for(context) if image.name == text]
    if len(listed) > 1:
        raise CommandError(f"{len(listed)} images are called {text}: name one by its id.")
    return str(listed[0].id) if listed else text


def hints_of(texts: Sequence[str]) -> dict[str, object]:
    """Read ``group=ID``; a repeated hint becomes a list."""
    hints: dict[str, list[str]] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not (key and mark):
            raise CommandError(f"--hint {text} must be a key and a value, such as group=ID.")
        hints.setdefault(key, []).append(value)
    return {key: values if len(values) > 1 else values[0] for key, values in hints.items()}


def as_json(fit: Fit) -> str:
    """Format the result as JSON."""
    filters = [asdict(result) for result in fit.decision.filters]
    hosts = [{"host": name, "servers": many} for name, many in fit.hosts]
    answer = {"fits": fit.fits, "most": fit.most, "asked": fit.asked, "quota": fit.allowed, "sentence": fit.sentence}
    return json.dumps(answer | {"driver": fit.decision.driver, "filters": filters, "hosts": hosts}, indent=2)


def astable(fit: Fit, what: str) -> str:
    """Format the result as text: the number, the results of filters, and the number for each host."""
    more = "+" if fit.fits == fit.most else ""
    times = "once" if fit.fits == 1 else f"{fit.fits}{more} times"
    lines = [f"{what} fits {times}; {fit.asked} requested."]
    if min(fit.fits, fit.fits if fit.allowed is None else fit.allowed) < fit.asked:
        lines.append(fit.sentence)
    lines.append("")
    if fit.hosts:
        lines.append("The first of them:" if more else "One more:")
    lines += table(
        ("filter", "before", "after", "why"),
        [(result.name, result.before, result.after, result.reason) for result in fit.decision.filters],
    )
    if fit.hosts:
        lines += ["", *table(("host", "servers"), fit.hosts)]
    return "\n".join(lines)
