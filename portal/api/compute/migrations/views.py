"""Migrations and resizes: ``/os-migrations`` and ``/servers/{id}/migrations`` (Compute API reference)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.common.paging import next_links, read_page
from portal.api.compute.migrations import schemas as migration_schemas
from portal.api.compute.schemas import boolean, last
from portal.api.compute.timestamps import read_end, read_time
from portal.api.compute.timestamps import timestamp_micro
from portal.api.compute.base import ComputeView
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.actions.live_migrate import abort_live_migration, force_live_migration
from provisioning.compute.models import Migration
from provisioning.compute.moves.live import live_migration_for, live_migrations_for
from provisioning.compute.selectors.migrations import MigrationFilters

_NAMES = ("host", "source_compute", "status", "migration_type", "instance_uuid", "user_id", "project_id")
"""The last two are there from 2.80 on, and before 2.59, when nothing was refused."""


class MigrationsView(ComputeView):
    """``GET /os-migrations``."""

    rules: ClassVar = {"GET": "os_compute_api:os-migrations:index"}
    queries: ClassVar = {"GET": migration_schemas.listing}

    def get(self, request: Request) -> Response:
        """List the migrations of all projects, or of the ``project_id`` asked for, the newest first; from 2.59 on a page.
        """
        query = self.checked_query()
        paged = self.microversion >= migration_schemas.PAGED
        page = read_page(request, zero_is_none=True) if paged else None
        filters = self._filters(query)
        if page is None:
            found = selectors.migrations_for(self.context, filters)
        else:
            found = selectors.migrations_for(self.context, filters, limit=page.limit, marker=page.marker)
        if boolean(last(query, "hidden")):  # there are none
            found = []
        nodes = selectors.nodes_of(found) if self.allows("os_compute_api:os-migrations:index:host") else None
        answer: dict[str, Any] = {"migrations": [self.shape(migration, nodes) for migration in found]}
        if page is not None:
            following = next_links(request, page, [migration.uuid for migration in found], f"{self.base}/os-migrations")
            if following:
                answer["migrations_links"] = following
        return Response(answer)

    def _filters(self, query: dict[str, list[str]]) -> MigrationFilters:
        said = {name: last(query, name) for name in _NAMES}
        since = last(query, "changes-since") if self.microversion >= migration_schemas.PAGED else None
        before = last(query, "changes-before") if self.microversion >= migration_schemas.BEFORE else None
        filters = MigrationFilters(
            **said,
            changes_since=read_time(since, "changes-since") if since else None,
            changes_before=read_end(before, "changes-before") if before else None,
        )
        if filters.changes_since and filters.changes_before and filters.changes_since > filters.changes_before:
            raise InvalidInputError(
                "The value of changes-since must be less than or equal to changes-before.", field="changes-since"
            )
        return filters

    def shape(self, migration: Migration, nodes: Mapping[str, str] | None) -> dict[str, Any]:
        """One migration; a node is a host's hypervisor.  Without ``nodes`` the caller sees no hosts."""
        source, target = migration.source_compute, migration.dest_compute
        seen = nodes is not None
        nodes = nodes or {}
        shape: dict[str, Any] = {
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
            "created_at": timestamp_micro(migration.created_at),
            "updated_at": timestamp_micro(migration.updated_at),
        }
        if self.microversion >= migration_schemas.KINDS:
            shape["migration_type"] = migration.migration_type
        if self.microversion >= migration_schemas.PAGED:
            shape["uuid"] = str(migration.uuid)
        if self.microversion >= migration_schemas.OWNERS:
            shape["user_id"] = migration.user_id.hex if migration.user_id else None
            shape["project_id"] = migration.project_id.hex if migration.project_id else None
        return shape


class LiveMigrationView(ComputeView):
    """The shape of a live migration that goes on."""

    def shape(self, migrations: Sequence[Migration]) -> list[dict[str, Any]]:
        nodes = selectors.nodes_of(migrations)
        return [self._one(migration, nodes) for migration in migrations]

    def _one(self, migration: Migration, nodes: Mapping[str, str]) -> dict[str, Any]:
        source, target = migration.source_compute, migration.dest_compute
        amounts = [f"{kind}_{name}_bytes" for kind in ("memory", "disk") for name in ("total", "processed", "remaining")]
        shape: dict[str, Any] = {
            "id": migration.id,
            "server_uuid": str(migration.instance_id),
            "status": migration.status,
            "source_compute": source,
            "source_node": nodes.get(source) or source,
            "dest_compute": target,
            "dest_node": nodes.get(target) or target,
            "dest_host": migration.dest_host,
            **{name: getattr(migration, name) for name in amounts},
            "created_at": timestamp_micro(migration.created_at),
            "updated_at": timestamp_micro(migration.updated_at),
        }
        if self.microversion >= migration_schemas.PAGED:
            shape["uuid"] = str(migration.uuid)
        if self.microversion >= migration_schemas.OWNERS:
            shape["user_id"] = migration.user_id.hex if migration.user_id else None
            shape["project_id"] = migration.project_id.hex if migration.project_id else None
        return shape


class ServerMigrationsView(LiveMigrationView):
    """``GET /servers/{id}/migrations`` (2.23): live migrations that go on."""

    rules: ClassVar = {"GET": "os_compute_api:servers:migrations:index"}
    versions: ClassVar = {"GET": (migration_schemas.KINDS, NEWEST)}

    def get(self, request: Request, server_id: str) -> Response:
        return Response({"migrations": self.shape(live_migrations_for(self.context, server_id))})


class ServerMigrationView(LiveMigrationView):
    """``GET`` (2.23) and ``DELETE`` (2.24) ``/servers/{id}/migrations/{migration_id}``."""

    rules: ClassVar = {"GET": "os_compute_api:servers:migrations:show", "DELETE": "os_compute_api:servers:migrations:delete"}
    versions: ClassVar = {"GET": (migration_schemas.KINDS, NEWEST), "DELETE": (migration_schemas.ABORT, NEWEST)}

    def get(self, request: Request, server_id: str, migration_id: str) -> Response:
        [shown] = self.shape([live_migration_for(self.context, server_id, migration_id)])
        return Response({"migration": shown})

    def delete(self, request: Request, server_id: str, migration_id: str) -> Response:
        """Abort it; before 2.65 only when the transfer has begun."""
        early = self.microversion >= migration_schemas.ABORT_EARLY
        abort_live_migration(self.context, server_id, migration_id, early=early)
        return Response(status=202)


class ServerMigrationActionView(ComputeView):
    """``POST /servers/{id}/migrations/{migration_id}/action`` (2.22): ``force_complete``."""

    rules: ClassVar = {"POST": "os_compute_api:servers:migrations:force_complete"}
    versions: ClassVar = {"POST": (migration_schemas.FORCE_COMPLETE, NEWEST)}
    schemas: ClassVar = {"POST": migration_schemas.FORCE}

    def post(self, request: Request, server_id: str, migration_id: str) -> Response:
        self.checked_body()
        force_live_migration(self.context, server_id, migration_id)
        return Response(status=202)
