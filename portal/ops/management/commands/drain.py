"""``manage.py drain HOST``: show the plan of a host's drain, carry it out, follow it, and change it."""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.common.durations import about
from portal.ops import named
from portal.ops.tables import table
from provisioning.common.context import RequestContext
from provisioning.compute.plans.moves import Plan
from provisioning.drains import selectors, services
from provisioning.drains.models import Drain
from provisioning.drains.services import DrainRequest
from provisioning.hosts.models import Host
from provisioning.identity.selectors.acting import context_of_user

WAYS = ("live", "cold", "evacuate", "stop")
CHANGES: dict[str, Callable[[RequestContext, str], Drain]] = {
    "pause": services.pause,
    "resume": services.resume,
    "cancel": services.cancel,
    "return": services.bring_back,
}
WAIT_SECONDS = 2.0


class Command(BaseCommand):
    """Plans and executes the drain of a host as an operator of the cloud."""

    help = "Empty a host for a repair or a reboot: without other options, print the plan and change nothing."
    epilog = "Exit status: 0, or 1 when servers would stay, or have stayed, on the host although they run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the host, the ways, the change, and the operator."""
        parser.epilog = self.epilog
        parser.add_argument("host", help="name of the host")
        parser.add_argument(
            "--way",
            action="append",
            default=[],
            choices=WAYS,
            help="an allowed method; repeatable (default: all that move)",
        )
        parser.add_argument("--reason", default="", help="shown as the reason of the maintenance")
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument("--start", action="store_true", help="start the maintenance and carry the plan out")
        for name in CHANGES:
            chosen.add_argument(f"--{name}", action="store_true", help=f"{name} the newest drain of the host")
        parser.add_argument("--wait", action="store_true", help="print the progress until the drain has finished")
        parser.add_argument("--user", default="admin", help="name or id of the operator (default %(default)s)")
        parser.add_argument("--user-domain", default=named.DOMAIN, help="(default %(default)s)")
        parser.add_argument("--project", default="admin", help="a project of the operator (default %(default)s)")
        parser.add_argument("--project-domain", default=named.DOMAIN, help="(default %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the plan, or begin or change a drain and follow it."""
        context = _operator(options)
        with named.as_command_errors():
            host = selectors.host_named(context, options["host"])
            change = next((name for name in CHANGES if options[name]), "")
            if change:
                drain = CHANGES[change](context, str(_newest(host).pk))
            elif options["start"]:
                drain = services.begin(context, host, DrainRequest(options["way"], options["reason"]))
            elif options["wait"]:
                drain = _newest(host)
            else:
                plan = selectors.plan_for(context, host, services.checked_ways(host, options["way"]))
                self._print_plan(plan)
                sys.exit(1 if plan.blocked else 0)
            left = self._follow(context, drain, wait=options["wait"])
        sys.exit(1 if left else 0)

    def _print_plan(self, plan: Plan) -> None:
        rows = [
            (
                move.instance.name,
                move.way or "stays",
                move.target or "-",
                about(move.seconds) if move.way else "-",
                _why(move.reason, move.change),
            )
            for move in plan.moves
        ]
        for line in table(("SERVER", "WAY", "TARGET", "TAKES", "REASON"), rows):
            self.stdout.write(line)
        self.stdout.write(f"{len(plan.moves)} servers, about {about(plan.seconds(settings.DRAIN_MOVES))}.")

    def _follow(self, context: RequestContext, drain: Drain, *, wait: bool) -> int:
        """Print the progress, until the end if ``wait``; return the number of servers that could not be moved, or that
        stay on the host although they run.
        """
        while True:
            drain = selectors.drain_for(context, drain.pk)
            items = selectors.items_of(drain)
            progress = selectors.progress_of(drain, items, settings.DRAIN_MOVES)
            self.stdout.write(
                f"{drain.state}: {progress.done} of {progress.total} done, {progress.moving} in progress,"
                f" {progress.waiting} waiting, {progress.failed} failed, {progress.stays} stay"
            )
            if drain.finished_at is not None or not wait:
                break
            time.sleep(WAIT_SECONDS)
        left = [item for item in items if item.state == "failed" or (item.state == "stays" and not item.idle)]
        for item in left:
            self.stdout.write(f"{item.name}: {_why(item.reason, item.change)}")
        return len(left)


def _why(reason: str, change: str) -> str:
    return f"{reason} {change}".strip()


def _newest(host: Host) -> Drain:
    drain = selectors.latest_of(host)
    if drain is None:
        raise CommandError(f"Host {host.name} has never been drained.")
    return drain


def _operator(options: dict[str, Any]) -> RequestContext:
    """Return the context of the operator. Raises CommandError without a role in the project."""
    user = named.user(options["user"], named.domain(options["user_domain"]))
    project = named.project(options["project"], named.domain(options["project_domain"]))
    context = context_of_user(user.id, project.id)
    if context is None:
        raise CommandError(f"{user.name} has no role in the project {project.name}.")
    return context
