"""Execution of drains.

Each server is claimed in one transaction with its action, so a killed worker neither repeats nor loses an action.
The scheduler chooses the target when the move begins, because the plan may be out of date by then.
"""

import uuid
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, NovellaError
from provisioning.common.processes import tracing
from provisioning.compute.actions.power import Start
from provisioning.compute.actions.resize import ConfirmResize
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.plans.moves import action_of_way, plan_servers
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.drains.models import Drain, DrainItem
from provisioning.drains.selectors import DRAIN
from provisioning.drains.services import DELETED, START, STOP, announce
from provisioning.hosts.selectors import is_alive
from provisioning.identity import policy
from provisioning.identity.selectors.acting import context_of_user

MOST_TRIES = 120
"""Number of attempts to begin a move while another task of the server is in progress; one every few seconds."""
NO_RIGHTS = "The operator who began the drain no longer has the rights for it."
STILL_HERE = "It is still on the host."
BUSY = "It has another task in progress."
LEFT = "It has left the host."
ALREADY = "Nothing was left to do."
_State, _Item = Drain.State, DrainItem.State


def run_all() -> None:
    """Continue all unfinished drains; for a periodic job."""
    for key in Drain.objects.filter(finished_at=None).order_by("created_at").values_list("id", flat=True):
        run(key)


def run(drain_id: uuid.UUID | str) -> None:
    """Record the moves that have ended, begin as many as ``NOVELLA_DRAIN_MOVES`` allows, and finish the drain if
    nothing is left.
    """
    moving = DrainItem.objects.select_related("drain__host").filter(drain_id=drain_id, state=_Item.MOVING)
    for each in moving.order_by("position"):
        _settle(each)
    tried: set[int] = set()
    while (item := _next(drain_id, tried)) is not None:
        tried.add(item.pk)
        _begin(item)
    _finish(drain_id)


def _next(drain_id: uuid.UUID | str, tried: Collection[int]) -> DrainItem | None:
    """Return the server whose move is to begin now; None if there is none, or if enough are in progress."""
    rows = DrainItem.objects.filter(drain_id=drain_id)
    if rows.filter(state=_Item.MOVING).count() >= settings.DRAIN_MOVES:
        return None
    waiting = rows.select_related("drain__host").filter(state=_Item.WAITING, drain__state=_State.RUNNING)
    return waiting.exclude(pk__in=tried).order_by("tries", "position").first()


@when_broken_off
def _begin(item: DrainItem) -> None:
    """Claim the server and begin its action, in one transaction. Another worker may have claimed it."""
    if not item.way and not _plan_late(item):
        return
    try:
        with transaction.atomic():
            drain = Drain.objects.select_for_update(no_key=True).filter(pk=item.drain_id, state=_State.RUNNING).first()
            if (
                drain is None
                or DrainItem.objects.filter(drain=drain, state=_Item.MOVING).count() >= settings.DRAIN_MOVES
            ):
                return
            waiting = DrainItem.objects.filter(pk=item.pk, state=_Item.WAITING)
            if waiting.update(state=_Item.MOVING, begun_at=timezone.now(), reason=""):
                announce(drain)
                state.lock([item.instance_id])
                needless = _needless(item)
                if needless:
                    _end(item, _Item.DONE, needless)
                else:
                    _act(item)
    except InstanceBusyError as error:
        if not _try_later(item, error.message):
            _end(item, _Item.FAILED, error.message)
    except NovellaError as error:
        _end(item, _Item.FAILED, error.message)


def _needless(item: DrainItem) -> str:
    """Return why a server no longer needs its action, for example because a user has stopped it; empty: it does."""
    server = Instance.objects.select_related("host").filter(id=item.instance_id, deleted_at=None).first()
    if server is None:
        return DELETED
    if item.drain.returns_id is None and server.host_id != item.drain.host_id:
        return LEFT
    return ALREADY if server.task_state is None and _reached(item, server) else ""


def _try_later(item: DrainItem, reason: str) -> bool:
    """Count an attempt while another task of the server is in progress; False without a task, or after too many."""
    busy = Instance.objects.filter(id=item.instance_id, task_state__isnull=False).exists()
    if busy and item.tries + 1 < MOST_TRIES:
        DrainItem.objects.filter(pk=item.pk).update(tries=F("tries") + 1, reason=reason)
        return True
    return False


def _plan_late(item: DrainItem) -> bool:
    """Plan a server that was busy when the drain began; False if it is still busy or stays."""
    if _try_later(item, BUSY):
        return False
    needless, host = _needless(item), item.drain.host
    if needless:
        _end(item, _Item.DONE, needless)
        return False
    server = Instance.objects.select_related("host").get(id=item.instance_id)
    move = plan_servers([server], host, item.drain.ways, host_up=is_alive(host, timezone.now()))[0]
    item.way, item.target = move.way, move.target
    columns: dict[str, Any] = {"way": move.way, "target": move.target, "seconds": move.seconds, "idle": move.idle}
    if not move.way:
        columns |= {"state": _Item.STAYS, "reason": move.reason, "change": move.change, "ended_at": timezone.now()}
    DrainItem.objects.filter(pk=item.pk, state=_Item.WAITING).update(**columns)
    return bool(move.way)


def _context_of(drain: Drain) -> RequestContext:
    """Return the context of the drain's user, with the rights that the user has now. Raises ForbiddenError."""
    context = context_of_user(drain.user_id, drain.project_id, request_id=tracing.request_id.get().strip("-"))
    if context is None or not policy.allows(context, DRAIN):
        raise ForbiddenError(NO_RIGHTS)
    return context


def _act(item: DrainItem) -> None:
    """Begin the action of a server."""
    drain = item.drain
    context = _context_of(drain)
    if item.way == START:
        Start.begin(context, item.instance_id)
        return
    declared = action_of_way(item.way)
    if declared is None:
        raise ConflictError("This method to move servers no longer exists.")
    action, way = declared
    policy.enforce(context, action.rule)
    action.begin(context, item.instance_id, way.request(drain.host.name if drain.returns_id else ""))


def _settle(item: DrainItem) -> None:
    """Record the end of a move whose action has ended. A migration that waits for its confirmation is confirmed
    first.
    """
    server = Instance.objects.select_related("host").filter(id=item.instance_id).first()
    if server is None or server.vm_state == VmState.DELETED:
        _end(item, _Item.DONE, DELETED)
    elif server.task_state is None and server.vm_state == VmState.RESIZED and _reached(item, server):
        _confirm(item)
    elif server.task_state is None:
        reached = _reached(item, server)
        target = server.host_name if item.way not in (STOP, START) else ""
        _end(item, _Item.DONE if reached else _Item.FAILED, "" if reached else _failure(item), target=target)


def _confirm(item: DrainItem) -> None:
    """Confirm a migration. It is tried again while that is not possible, for example because the old host is down."""
    try:
        ConfirmResize.begin(_context_of(item.drain), item.instance_id)
    except NovellaError as error:
        DrainItem.objects.filter(pk=item.pk).update(reason=error.message)


def _reached(item: DrainItem, server: Instance) -> bool:
    """Whether the server is on the host and in the state that its move was to reach."""
    drain = item.drain
    if item.way == STOP:
        return server.vm_state == VmState.STOPPED
    if item.way == START:
        return server.vm_state == VmState.ACTIVE
    if drain.returns_id is not None:
        return server.host_id == drain.host_id
    return server.host_id not in (None, drain.host_id) and server.vm_state != VmState.ERROR


def _failure(item: DrainItem) -> str:
    """Return the message of the server's last action since the move began."""
    actions = InstanceAction.objects.filter(instance_id=item.instance_id, started_at__gte=item.begun_at)
    message = actions.exclude(message=None).order_by("-started_at").values_list("message", flat=True).first()
    return message or STILL_HERE


def _end(item: DrainItem, ended: DrainItem.State, reason: str, *, target: str = "") -> None:
    columns: dict[str, Any] = {"state": ended, "reason": reason, "ended_at": timezone.now()}
    if target:
        columns["target"] = target[:255]
    with transaction.atomic():
        if DrainItem.objects.filter(pk=item.pk, state__in=[_Item.WAITING, _Item.MOVING]).update(**columns):
            announce(item.drain)


@when_broken_off
def _finish(drain_id: uuid.UUID | str) -> None:
    """Finish a drain without waiting and moving servers."""
    with transaction.atomic():
        drain = Drain.objects.select_for_update(no_key=True).filter(pk=drain_id, finished_at=None).first()
        if drain is None or drain.items.filter(state__in=[_Item.WAITING, _Item.MOVING]).exists():
            return
        ended = _State.CANCELLED if drain.state == _State.CANCELLED else _State.FINISHED
        Drain.objects.filter(pk=drain.pk).update(state=ended, finished_at=timezone.now())
        announce(drain)
