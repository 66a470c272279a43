"""Migrations and resizes: ``/os-migrations`` and ``/servers/{id}/migrations`` (Compute API reference); drains of hosts
and their plans, which are Novella's own operations.
"""

from collections.abc import Callable, Mapping, Sequence

from django.conf import settings
from rest_framework.request import Request

from portal.api.compute import dialect
from portal.api.frame import Call, Json, Schema, Values, Version, body, inner, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.actions.live_migrate import abort_live_migration, force_live_migration
from provisioning.compute.models import Migration
from provisioning.compute.moves.live import live_migration_for, live_migrations_for
from provisioning.compute.plans.moves import PlannedMove
from provisioning.drains import selectors as drains
from provisioning.drains import services
from provisioning.drains.models import Drain, DrainItem
from provisioning.drains.selectors import DRAIN, SHOW
from provisioning.drains.services import DrainRequest

KINDS, PAGED, BEFORE, OWNERS = (2, 23), (2, 59), (2, 66), (2, 80)
FORCE_COMPLETE, ABORT, ABORT_EARLY = (2, 22), (2, 24), (2, 65)
_NAMES = ("host", "source_compute", "status", "migration_type", "instance_uuid", "user_id", "project_id")
"""``user_id`` and ``project_id`` exist from 2.80 on. Before 2.59 all names are accepted, because unknown parameters
are.
"""


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-migrations``: strict and paged from 2.59 on."""
    names = ("hidden", "host", "instance_uuid", "migration_type", "source_compute", "status")
    parameters: dict[str, Schema] = dict.fromkeys(names, dialect.TEXT)
    if version < PAGED:
        return dialect.query((2, 1), parameters)
    parameters |= {"limit": dialect.COUNT, "marker": dialect.TEXT, "changes-since": dialect.TEXT}
    if version >= BEFORE:
        parameters["changes-before"] = dialect.TEXT
    if version >= OWNERS:
        parameters |= {"user_id": dialect.TEXT, "project_id": dialect.TEXT}
    return dialect.query(dialect.STRICT_QUERIES, parameters)


class MigrationsView(dialect.ComputeView):
    """``GET /os-migrations``."""

    rules = {"GET": "os_compute_api:os-migrations:index"}
    queries = {"GET": listing}

    def get(self, request: Request) -> Json:
        """List the migrations of all projects, or of the project ``project_id``, newest first; with pages from
        2.59 on.
        """
        query = self.checked_query()
        paged = self.microversion >= PAGED
        page = dialect.LIST_PAGES.read(request) if paged else None
        filters = self._filters(query)
        if page is None:
            found = selectors.migrations_for(self.context, filters)
        else:
            found = selectors.migrations_for(self.context, filters, limit=page.limit, marker=page.marker)
        if dialect.boolean(dialect.last(query, "hidden")):  # there are none
            found = []
        nodes = selectors.nodes_of(found) if self.allows("os_compute_api:os-migrations:index:host") else None
        answer: Json = {"migrations": [self.shape(migration, nodes) for migration in found]}
        if page is not None:
            following = dialect.LIST_PAGES.links(
                request, page, [migration.uuid for migration in found], f"{self.base}/os-migrations"
            )
            if following:
                answer["migrations_links"] = following
        return answer

    def _filters(self, query: dict[str, list[str]]) -> Values:
        values = {name: dialect.last(query, name) for name in _NAMES}
        since = dialect.last(query, "changes-since") if self.microversion >= PAGED else None
        before = dialect.last(query, "changes-before") if self.microversion >= BEFORE else None
        begin = dialect.read_time(since, "changes-since") if since else None
        end = dialect.read_end(before, "changes-before") if before else None
        if begin and end and begin > end:
            raise InvalidInputError(
                "The value of changes-since must be less than or equal to changes-before.", field="changes-since"
            )
        return {**values, "changes_since": begin, "changes_before": end}

    def shape(self, migration: Migration, nodes: Mapping[str, str] | None) -> Json:
        """One migration; a node is a host's hypervisor.  Without ``nodes`` the caller sees no hosts."""
        source, target = migration.source_compute, migration.dest_compute
        seen = nodes is not None
        nodes = nodes or {}
        shape: Json = {
            "id": migration.id,
            "instance_uuid": str(migration.instance_id),
            "status": migration.status,
            "source_compute": source if seen else None,
            "source_node": (nodes.get(source) or source) if seen else None,
            "dest_compute": target if seen else None,
            "dest_node": (nodes.get(target) or target) if seen else None,
            "dest_host": migration.dest_host if seen else None,
            "old_instance_type_id": migration.old_flavor.get("id"),
            "new_instance_type_id": migration.new_flavor.get("id"),
            "created_at": dialect.timestamp_micro(migration.created_at),
            "updated_at": dialect.timestamp_micro(migration.updated_at),
        }
        if self.microversion >= KINDS:
            shape["migration_type"] = migration.migration_type
        return shape | _later(self, migration)


def _live(view: dialect.ComputeView, migrations: Sequence[Migration]) -> list[Json]:
    """Return live migrations that have not ended."""
    nodes = selectors.nodes_of(migrations)
    return [_live_shape(view, migration, nodes) for migration in migrations]


def _live_shape(view: dialect.ComputeView, migration: Migration, nodes: Mapping[str, str]) -> Json:
    source, target = migration.source_compute, migration.dest_compute
    amounts = [f"{kind}_{name}_bytes" for kind in ("memory", "disk") for name in ("total", "processed", "remaining")]
    shape: Json = {
        "id": migration.id,
        "server_uuid": str(migration.instance_id),
        "status": migration.status,
        "source_compute": source,
        "source_node": nodes.get(source) or source,
        "dest_compute": target,
        "dest_node": nodes.get(target) or target,
        "dest_host": migration.dest_host,
        **{name: getattr(migration, name) for name in amounts},
        "created_at": dialect.timestamp_micro(migration.created_at),
        "updated_at": dialect.timestamp_micro(migration.updated_at),
    }
    return shape | _later(view, migration)


def _later(view: dialect.ComputeView, migration: Migration) -> Json:
    """Return the attributes of newer microversions."""
    shape: Json = {}
    if view.microversion >= PAGED:
        shape["uuid"] = str(migration.uuid)
    if view.microversion >= OWNERS:
        shape["user_id"] = migration.user_id.hex if migration.user_id else None
        shape["project_id"] = migration.project_id.hex if migration.project_id else None
    return shape


MIGRATIONS = parts(
    dialect.ComputeView,
    "servers/{server_id}/migrations",
    {
        "GET": Call(
            live_migrations_for,
            "os_compute_api:servers:migrations:index",
            name="migrations",
            shape=_live,
            since=KINDS,
        ),
        "GET /{migration_id}": Call(
            live_migration_for,
            "os_compute_api:servers:migrations:show",
            name="migration",
            shape=lambda view, found: _live(view, [found])[0],
            since=KINDS,
        ),
        "DELETE /{migration_id}": Call(
            abort_live_migration,
            "os_compute_api:servers:migrations:delete",
            "Abort it; before 2.65 only when the transfer has begun.",
            status=202,
            more=lambda view: {"early": view.microversion >= ABORT_EARLY},
            since=ABORT,
        ),
        "POST /{migration_id}/action": Call(
            lambda context, server_id, number, _: force_live_migration(context, server_id, number),
            "os_compute_api:servers:migrations:force_complete",
            status=202,
            body=inner({"force_complete": {"type": "null"}}, ("force_complete",)),
            since=FORCE_COMPLETE,
        ),
    },
)


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
    return body("drain", {"host": dialect.HOST, "ways": ways, "reason": reason}, ("host",))


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
    return dialect.query(version, {"host": dialect.HOST, "ways": WAY}) | {"required": ["host"]}


def move_shape(move: PlannedMove) -> Json:
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


def item_shape(item: DrainItem) -> Json:
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
        "started_at": dialect.timestamp(item.begun_at) if item.begun_at else None,
        "finished_at": dialect.timestamp(item.ended_at) if item.ended_at else None,
    }


def drain_shape(drain: Drain, items: Sequence[DrainItem] | None = None) -> Json:
    """A drain; with ``items`` also its numbers and servers."""
    shape: Json = {
        "id": str(drain.id),
        "host": drain.host.name,
        "state": drain.state,
        "ways": drain.ways,
        "returns": str(drain.returns_id) if drain.returns_id else None,
        "user_name": drain.user_name,
        "created_at": dialect.timestamp(drain.created_at),
        "finished_at": dialect.timestamp(drain.finished_at) if drain.finished_at else None,
    }
    if items is None:
        return shape
    found = drains.progress_of(drain, items, settings.DRAIN_MOVES)
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


def _whole(view: dialect.ComputeView, drain: Drain) -> Json:
    return drain_shape(drain, drains.items_of(drain))


def _begin(context: RequestContext, body: Json) -> Drain:
    host = drains.host_named(context, body["host"])
    return services.begin(context, host, DrainRequest(body.get("ways", ()), body.get("reason", "")))


def _plan(context: RequestContext, *, host: str, ways: Sequence[str]) -> Json:
    on = drains.host_named(context, host)
    checked = services.checked_ways(on, ways)
    found = drains.plan_for(context, on, checked)
    seconds = round(found.seconds(settings.DRAIN_MOVES))
    shape = {"host": on.name, "ways": checked, "seconds": seconds, "more": found.more}
    return shape | {"servers": [move_shape(move) for move in found.moves]}


def _act(context: RequestContext, drain_id: str, body: dict[str, None]) -> Drain:
    [name] = body
    return ACTIONS[name](context, drain_id)


DRAINS = parts(
    dialect.ComputeView,
    "novella-drains",
    {
        "GET": Call(
            drains.drains_for,
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
                "host": dialect.last(view.checked_query(), "host") or "",
                "ways": view.checked_query().get("ways", []),
            },
        ),
        "GET /{drain_id}": Call(
            drains.drain_for, SHOW, "Show a drain with its progress and servers.", name="drain", shape=_whole
        ),
        "POST /{drain_id}/action": Call(
            _act,
            DRAIN,
            "Pause, resume or cancel a drain, or move its servers back to their host.",
            name="drain",
            shape=_whole,
            status=202,
            body=action,
        ),
    },
)
