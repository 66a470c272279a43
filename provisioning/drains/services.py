"""Drains: begin, pause, cancel, and move the servers back."""

import logging
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.compute.models import Instance
from provisioning.compute.plans.moves import PlannedMove, known_ways, plan_host, plan_return
from provisioning.compute.services.hosts import disable_host
from provisioning.compute.states import VmState
from provisioning.drains.models import Drain, DrainItem
from provisioning.drains.selectors import DRAIN, drain_for
from provisioning.events import services as events
from provisioning.events.selectors import OPERATORS
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.identity import policy
from provisioning.jobs.queue.cast import cast

TOPIC, JOB = "conductor", "drains.run"
EVENT = "drain"
"""The kind of events about drains."""
REASON = "Drain"
STOP, START = "stop", "start"
DELETED = "It was deleted."
_State, _Item = Drain.State, DrainItem.State
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """A request to drain a host. ``ways``: names of the allowed ways; empty: all ways that move servers, none that
    stops them. ``reason`` is shown as the reason of the maintenance.
    """

    ways: Sequence[str] = field(default_factory=tuple)
    reason: str = ""


def usual_ways(host: Host) -> list[str]:
    """Return the ways that a drain of the host uses by default: those that move servers."""
    return [way.name for way in known_ways(host_up=is_alive(host, timezone.now())) if way.moves]


def checked_ways(host: Host, requested: Collection[str]) -> list[str]:
    """Return the chosen ways, most careful first. Raises InvalidInputError for a way that is not possible now."""
    possible = [way.name for way in known_ways(host_up=is_alive(host, timezone.now()))]
    wrong = [name for name in requested if name not in possible]
    if wrong:
        raise InvalidInputError(
            f"{wrong[0][:40]!r} is not possible now. Choose among {', '.join(possible) or 'none'}.", field="ways"
        )
    return [name for name in possible if name in requested] if requested else usual_ways(host)


@when_broken_off
def begin(context: RequestContext, host: Host, request: DrainRequest) -> Drain:
    """Start a maintenance of the host and the drain of its servers, by a new plan.

    Raises ForbiddenError, InvalidInputError for ways, ConflictError while another drain of the host is unfinished.
    """
    _check_caller(context)
    ways = checked_ways(host, request.ways)
    with transaction.atomic():
        _lock_host(host)
        if host.enabled:
            disable_host(context, host.id, request.reason or REASON)
        plan = plan_host(host, ways, host_up=is_alive(host, timezone.now()))
        return _create(context, host, ways, plan.moves)


@when_broken_off
def bring_back(context: RequestContext, drain_id: uuid.UUID | str) -> Drain:
    """Move the servers of a finished drain back to its host, and start the servers that the drain has stopped.

    Raises ForbiddenError, NotFoundError, ConflictError while the host is down, in maintenance or has an unfinished
    drain, or if no server can come back.
    """
    _check_caller(context)
    earlier = drain_for(context, drain_id)
    host = earlier.host
    if earlier.finished_at is None:
        raise ConflictError("The drain is still in progress.")
    if not host.enabled or not is_alive(host, timezone.now()):
        raise ConflictError("End the maintenance first. The host must be up, so that its servers can return.")
    moved = list(earlier.items.filter(state=_Item.DONE).order_by("position"))
    with transaction.atomic():
        _lock_host(host)
        there = Instance.objects.select_related("host").in_bulk([item.instance_id for item in moved])
        stopped = [there[item.instance_id] for item in moved if item.way == STOP and item.instance_id in there]
        away = [there[item.instance_id] for item in moved if item.way != STOP and item.instance_id in there]
        planned = plan_return([each for each in away if each.host_id not in (None, host.id)], host)
        planned += [
            PlannedMove(each, START, seconds=30.0)
            for each in stopped
            if each.host_id == host.id and each.vm_state == VmState.STOPPED
        ]
        if not planned:
            raise ConflictError("No server of this drain can return.")
        return _create(context, host, [], planned, returns=earlier)


def _check_caller(context: RequestContext) -> None:
    policy.enforce(context, DRAIN)
    if context.user_id is None or context.project_id is None or context.is_delegated:
        raise ForbiddenError("Drains require a user in a project, without delegated rights.")


def _lock_host(host: Host) -> None:
    """Lock the host, whose drains begin one after the other. Raises ConflictError while one is unfinished."""
    list(Host.objects.select_for_update(no_key=True).filter(id=host.id).values_list("id"))
    if Drain.objects.filter(host=host, finished_at=None).exists():
        raise ConflictError(f"A drain of host {host.name} is in progress.")


def _create(
    context: RequestContext,
    host: Host,
    ways: Sequence[str],
    moves: Sequence[PlannedMove],
    returns: Drain | None = None,
) -> Drain:
    drain = Drain.objects.create(
        host=host,
        ways=list(ways),
        returns=returns,
        user_id=context.user_id or uuid.UUID(int=0),
        project_id=context.project_id or uuid.UUID(int=0),
        user_name=context.user_name,
    )
    DrainItem.objects.bulk_create(_item(drain, place, move) for place, move in enumerate(moves))
    announce(drain)
    cast(TOPIC, JOB, drain_id=str(drain.id))
    return drain


def _item(drain: Drain, place: int, move: PlannedMove) -> DrainItem:
    return DrainItem(
        drain=drain,
        position=place,
        instance_id=move.instance.id,
        name=move.instance.name[:255],
        way=move.way,
        target=move.target,
        seconds=move.seconds,
        state=_Item.WAITING if move.way or move.instance.task_state is not None else _Item.STAYS,
        reason=move.reason,
        change=move.change,
        idle=move.idle,
    )


# ----- pause and cancel -----------------------------------------------------------------------------------------------


def pause(context: RequestContext, drain_id: uuid.UUID | str) -> Drain:
    """Begin no other moves; moves in progress are completed. Raises ConflictError unless the drain is running."""
    return _switch(context, drain_id, _State.PAUSED, [_State.RUNNING])


def resume(context: RequestContext, drain_id: uuid.UUID | str) -> Drain:
    """Continue a paused drain. Raises ConflictError unless it is paused."""
    return _switch(context, drain_id, _State.RUNNING, [_State.PAUSED])


def cancel(context: RequestContext, drain_id: uuid.UUID | str) -> Drain:
    """Skip all waiting servers; moves in progress end. The host stays in maintenance.

    Raises ConflictError unless the drain is running or paused.
    """
    return _switch(context, drain_id, _State.CANCELLED, [_State.RUNNING, _State.PAUSED])


@when_broken_off
def _switch(
    context: RequestContext, drain_id: uuid.UUID | str, to: Drain.State, allowed: Sequence[Drain.State]
) -> Drain:
    policy.enforce(context, DRAIN)
    with transaction.atomic():
        drain = drain_for(context, drain_id)
        if not Drain.objects.filter(pk=drain.pk, state__in=allowed, finished_at=None).update(state=to):
            raise ConflictError(f"The drain is {drain.state}.")
        if to == _State.CANCELLED:
            drain.items.filter(state=_Item.WAITING).update(state=_Item.CANCELLED, ended_at=timezone.now())
        announce(drain)
        cast(TOPIC, JOB, drain_id=str(drain.id))
    return drain_for(context, drain_id)


def announce(drain: Drain) -> None:
    """Wake the pages of the drain's host."""
    events.record(OPERATORS, EVENT, {"id": str(drain.host_id)})
