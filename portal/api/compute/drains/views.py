"""Drains of hosts and their plans, for operators."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.schemas import HOST, Schema, Version, body, last, query
from portal.api.compute.timestamps import timestamp
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


class DrainsView(ComputeView):
    """``GET`` and ``POST /novella-drains``."""

    rules = {"GET": SHOW, "POST": DRAIN}
    schemas: ClassVar = {"POST": creation}

    def get(self, request: Request) -> Response:
        """List the newest drains, without their servers."""
        return Response({"drains": [drain_shape(drain) for drain in selectors.drains_for(self.context)]})

    def post(self, request: Request) -> Response:
        """Start the maintenance of a host, plan its drain, and begin it."""
        asked = self.checked_body()["drain"]
        host = selectors.host_named(self.context, asked["host"])
        drain = services.begin(self.context, host, DrainRequest(asked.get("ways", ()), asked.get("reason", "")))
        return Response({"drain": drain_shape(drain, selectors.items_of(drain))}, status=202)


class PlanView(ComputeView):
    """``GET /novella-drains/plan``."""

    rules = {"GET": SHOW}
    queries: ClassVar = {"GET": plan}

    def get(self, request: Request) -> Response:
        """Show how each server of a host would be moved or stopped, and what prevents it; nothing is changed."""
        asked = self.checked_query()
        host = selectors.host_named(self.context, last(asked, "host") or "")
        ways = services.checked_ways(host, asked.get("ways", []))
        found = selectors.plan_for(self.context, host, ways)
        seconds = round(found.seconds(settings.DRAIN_MOVES))
        shape = {"host": host.name, "ways": ways, "seconds": seconds, "more": found.more}
        return Response({"plan": shape | {"servers": [move_shape(move) for move in found.moves]}})


class DrainView(ComputeView):
    """``GET /novella-drains/{id}``."""

    rules = {"GET": SHOW}

    def get(self, request: Request, drain_id: str) -> Response:
        """Show a drain with its progress and servers."""
        drain = selectors.drain_for(self.context, drain_id)
        return Response({"drain": drain_shape(drain, selectors.items_of(drain))})


class DrainActionView(ComputeView):
    """``POST /novella-drains/{id}/action``."""

    rules = {"POST": DRAIN}
    schemas: ClassVar = {"POST": action}

    def post(self, request: Request, drain_id: str) -> Response:
        """Pause, resume or cancel a drain, or bring its servers back to their host."""
        [name] = self.checked_body()
        drain = ACTIONS[name](self.context, drain_id)
        return Response({"drain": drain_shape(drain, selectors.items_of(drain))}, status=202)
