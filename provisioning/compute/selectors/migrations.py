"""Queries of resizes and migrations of servers."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.models import Migration
from provisioning.hosts.models import Host
from provisioning.identity import policy

EVERY_PROJECT = "os_compute_api:os-migrations:index:all_projects"
MIGRATIONS = Listing[Migration](order=(Sort("created_at"), Sort("id")), marker="uuid")


@dataclass(frozen=True, slots=True)
class MigrationFilters:
    """Filters of a list of migrations; None: not filtered. ``host`` matches source and destination."""

    host: str | None = None
    source_compute: str | None = None
    status: str | None = None
    migration_type: str | None = None
    instance_uuid: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    changes_since: datetime | None = None
    changes_before: datetime | None = None

    def condition(self) -> Q:
        """Return the filters as a condition; an invalid id matches nothing."""
        found = Q()
        for column in ("source_compute", "status", "migration_type"):
            value = getattr(self, column)
            found &= Q() if value is None else Q(**{column: value})
        for column, text in (
            ("instance_id", self.instance_uuid),
            ("user_id", self.user_id),
            ("project_id", self.project_id),
        ):
            found &= Q() if text is None else Q(**{column: read_id(text) or NOBODY})
        if self.host is not None:
            found &= Q(source_compute=self.host) | Q(dest_compute=self.host)
        if self.changes_since is not None:
            found &= Q(updated_at__gte=self.changes_since)
        if self.changes_before is not None:
            found &= Q(updated_at__lte=self.changes_before)
        return found


def migrations_for(
    context: RequestContext, filters: MigrationFilters, *, limit: int | None = None, marker: str | None = None
) -> list[Migration]:
    """Return migrations of all projects, or of the requested one, newest first.

    ``marker`` is a UUID. Raises ForbiddenError, as in Nova, for all projects or another project than the caller's
    unless the caller is an operator, and InvalidInputError for an unknown marker.
    """
    policy.enforce(context, "os_compute_api:os-migrations:index")
    everything = policy.allows(context, EVERY_PROJECT)
    if context.project_id is None or read_id(filters.project_id) != context.project_id:
        policy.enforce(context, EVERY_PROJECT)
    among = Migration.objects.all() if everything else Migration.objects.filter(project_id=context.project_id)
    return MIGRATIONS.page(among.filter(filters.condition()), Part(limit=limit, marker=marker), among=among)


def all_migrations(context: RequestContext) -> QuerySet[Migration]:
    """Return the migrations of all projects, in any order. Raises ForbiddenError."""
    policy.enforce(context, EVERY_PROJECT)
    return Migration.objects.all()


def nodes_of(migrations: Iterable[Migration]) -> dict[str, str]:
    """Return host → name of its hypervisor, for the existing hosts of these migrations; one query."""
    names = {name for row in migrations for name in (row.source_compute, row.dest_compute)}
    return dict(Host.objects.filter(name__in=names).values_list("name", "hypervisor_hostname"))
