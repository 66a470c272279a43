"""The move of an instance to another host, as pages show it, and the dialogs that abort or complete it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.common.durations import about
from portal.dashboard.instances.page import InstanceDialog
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words import wording
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute.actions.live_migrate import abort_live_migration, force_live_migration
from provisioning.compute.models import Instance
from provisioning.compute.moves.live import live_migration_for
from provisioning.compute.moves.progress import Move, move_of
from provisioning.identity import policy

ABORT = "os_compute_api:servers:migrations:delete"
COMPLETE = "os_compute_api:servers:migrations:force_complete"
SEES_HOSTS = "os_compute_api:os-migrations:index:host"
ENDED = "The migration has already ended."


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A move that is under way; ``abort`` and ``complete`` are addresses of dialogs, empty if not possible now."""

    move: Move
    sees_hosts: bool
    abort: str = ""
    complete: str = ""

    @property
    def progress(self) -> wording.Progress | None:
        return wording.progress(self.move.done, self.move.total)

    @property
    def heading(self) -> str:
        return "Returning to its previous hardware" if self.move.returns else "Moving to other hardware"

    @property
    def left(self) -> str:
        """The estimated rest: ``About 30 s left``; empty for a return."""
        if self.move.returns:
            return ""
        seconds = self.move.seconds_left
        return f"About {about(seconds)} left" if seconds else "Longer than estimated"


def move_row(context: RequestContext, instance: Instance, move: Move) -> MoveRow:
    """Return a move with the actions that the policy allows the caller."""
    own = {"project_id": str(instance.project_id), "user_id": str(instance.user_id)}
    ids = [instance.id, move.migration.id]
    may_abort = move.can_abort and policy.allows(context, ABORT, own)
    may_complete = move.can_complete and policy.allows(context, COMPLETE, own)
    return MoveRow(
        move,
        policy.allows(context, SEES_HOSTS, own),
        reverse("dashboard:instance_migration_abort", args=ids) if may_abort else "",
        reverse("dashboard:instance_migration_complete", args=ids) if may_complete else "",
    )


def move_for(context: RequestContext, instance: Instance) -> MoveRow | None:
    """Return the move of an instance; None, without a query, if its task is not a move."""
    move = move_of(instance)
    return move_row(context, instance, move) if move is not None else None


class _Control(QuestionPage, InstanceDialog):
    """Base of the dialogs for one live migration, whose number is in the address."""

    in_menu = False
    stays = True
    verb: ClassVar[str]

    @classmethod
    def url_name(cls) -> str:
        return f"instance_migration_{cls.verb}"

    def find(self) -> None:
        """Find the migration. Raises NotFoundError if it has ended."""
        live_migration_for(self.context, self.instance.id, self.number)

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self._unless_ended(super().get, request)

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self._unless_ended(super().post, request)

    def _unless_ended(self, handler: Callable[[HttpRequest], HttpResponse], request: HttpRequest) -> HttpResponse:
        try:
            return handler(request)
        except NotFoundError:
            return self.go(self.back(), message=ENDED, level=messages.WARNING)

    @property
    def number(self) -> str:
        return str(self.kwargs["migration_id"])

    def name(self) -> str:
        return self.instance.name


class AbortMigration(_Control):
    """Aborts a live migration."""

    path, label, icon, verb = "migrations/<int:migration_id>/abort", "Abort migration", "x-octagon", "abort"
    rule = ABORT
    danger = True
    question = "Abort the migration of {name}?"
    consequence = "The instance keeps running on its host, and the data that was copied is removed from the other host."
    message = "The migration of {name} is being aborted."

    def do(self) -> None:
        abort_live_migration(self.context, self.instance.id, self.number)


class CompleteMigration(_Control):
    """Completes a live migration immediately."""

    path, label, icon, verb = "migrations/<int:migration_id>/complete", "Force complete", "fast-forward", "complete"
    rule = COMPLETE
    danger = True
    question = "Complete the migration of {name} now?"
    consequence = (
        "The instance is paused until the rest of its memory is copied. With much memory to copy it does not answer for"
        " that time."
    )
    message = "The migration of {name} is being completed."

    def do(self) -> None:
        force_live_migration(self.context, self.instance.id, self.number)
