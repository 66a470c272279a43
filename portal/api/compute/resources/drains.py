"""Drains of hosts and their plans, for operators."""

from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.schemas import HOST, Schema, Version, body, last, query
from portal.api.compute.dialect.timestamps import timestamp
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.compute.plans.moves import PlannedMove
from provisioning.drains import selectors, services
from provisioning.drains.models import Drain, DrainItem
from provisioning.drains.selectors import DRAIN, SHOW
from provisioning.drains.services import DrainRequest

WAY: Schema = {"type": "string", "enum": ["live", "cold", "evacuate", "stop"]}
ACTIONS: dict[str, Callable[[RequestContext, str], Drain]] = {
    "pause": services.pause,
    "resume": services.resume,
    "cancel": services.cancel,
    "return": services.bring_back,
}


def creation(version: Version) -> Schema:
    """Return the schema of ``POST /novella-drains``, equal at every microversion."""
    ways = {"type": "array", "items": WAY, "uniqueItems": True, "maxItems": len(WAY["enum"])}
    reason = {"type": "string", "maxLength": 255}
    return body("drain", {"host": HOST, "ways": ways, "reason": reason}, ("host",))


def action(version: Version) -> Schema:
    """Return the schema of ``POST /novella-drains/{id}/action``: one action without parameters."""
    return {
        "type": "object",
        "properties": {name: {"type": "null"} for name in ACTIONS},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def plan(version: Version) -> Schema:
    """Return the schema of the query of ``GET /novella-drains/plan``."""
    return query(version, {"host": HOST, "ways": WAY}) | {"required": ["host"]}


def move_shape(move: PlannedMove) -> dict[str, Any]:
    """One server of a plan; ``way`` null: it is not moved, for the ``reason``."""
    return {
        "server_id": str(move.instance.id),
        "name": move.instance.name,
        "way": move.way or None,
        "target": move.target or None,
        "seconds": round(move.seconds),
        "reason": move.reason or None,
        "change": move.change or None,
        "blocked": move.blocked,
        "new_disks": move.new_disks,
    }


def item_shape(item: DrainItem) -> dict[str, Any]:
    """One server of a drain."""
    return {
        "server_id": str(item.instance_id),
        "name": item.name,
        "way": item.way or None,
        "target": item.target or None,
        "state": item.state,
        "seconds": round(item.seconds),
        "reason": item.reason or None,
        "change": item.change or None,
        "started_at": timestamp(item.begun_at) if item.begun_at else None,
        "finished_at": timestamp(item.ended_at) if item.ended_at else None,
    }


def drain_shape(drain: Drain, items: Sequence[DrainItem] | None = None) -> dict[str, Any]:
    """A drain; with ``items`` also its numbers and servers."""
    shape: dict[str, Any] = {
        "id": str(drain.id),
        "host": drain.host.name,
        "state": drain.state,
        "ways": drain.ways,
        "returns": str(drain.returns_id) if drain.returns_id else None,
        "user_name": drain.user_name,
        "created_at": timestamp(drain.created_at),
        "finished_at": timestamp(drain.finished_at) if drain.finished_at else None,
    }
    if items is None:
        return shape
    found = selectors.progress_of(drain, items, settings.DRAIN_MOVES)
    progress = {
        "total": found.total,
        "done": found.done,
        "moving": found.moving,
        "waiting": found.waiting,
        "failed": found.failed,
        "stays": found.stays,
        "percent": found.percent,
        "seconds_left": round(found.seconds),
    }
    return shape | {"progress": progress, "servers": [item_shape(item) for item in items]}


def _whole(view: ComputeView, drain: Drain) -> dict[str, Any]:
    return drain_shape(drain, selectors.items_of(drain))


def _begin(context: RequestContext, body: dict[str, Any]) -> Drain:
    host = selectors.host_named(context, body["host"])
    return services.begin(context, host, DrainRequest(body.get("ways", ()), body.get("reason", "")))


def _plan(context: RequestContext, *, host: str, ways: Sequence[str]) -> dict[str, Any]:
    on = selectors.host_named(context, host)
    checked = services.checked_ways(on, ways)
    found = selectors.plan_for(context, on, checked)
    seconds = round(found.seconds(settings.DRAIN_MOVES))
    shape = {"host": on.name, "ways": checked, "seconds": seconds, "more": found.more}
    return shape | {"servers": [move_shape(move) for move in found.moves]}


def _act(context: RequestContext, drain_id: str, body: dict[str, None]) -> Drain:
    [name] = body
    return ACTIONS[name](context, drain_id)


PARTS = parts(
    ComputeView,
    "novella-drains",
    {
        "GET": Call(
            selectors.drains_for,
            SHOW,
            "List the newest drains, without their servers.",
            name="drains",
            shape=lambda view, found: [drain_shape(drain) for drain in found],
        ),
        "POST": Call(
            _begin,
            DRAIN,
            "Start the maintenance of a host, plan its drain, and begin it.",
            name="drain",
            shape=_whole,
            status=202,
            body=creation,
        ),
        "GET /plan": Call(
            _plan,
            SHOW,
            "Show how each server of a host would be moved or stopped, and what prevents it; nothing is changed.",
            name="plan",
            query=plan,
            more=lambda view: {
                "host": last(view.checked_query(), "host") or "",
                "ways": view.checked_query().get("ways", []),
            },
        ),
        "GET /{drain_id}": Call(
            selectors.drain_for, SHOW, "Show a drain with its progress and servers.", name="drain", shape=_whole
        ),
        "POST /{drain_id}/action": Call(
            _act,
            DRAIN,
            "Pause, resume or cancel a drain, or bring its servers back to their host.",
            name="drain",
            shape=_whole,
            status=202,
            body=action,
        ),
    },
)
