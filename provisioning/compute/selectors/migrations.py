"""Queries of resizes and migrations of servers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.models import Migration
from provisioning.hosts.models import Host
from provisioning.identity import policy

EVERY_PROJECT = "os_compute_api:os-migrations:index:all_projects"


def _id(column: str) -> Callable[[str], Q]:
    return lambda text: Q(**{column: read_id(text) or NOBODY})


MIGRATIONS = Listing[Migration](
    order=(Sort("created_at"), Sort("id")),
    filters={
        "host": lambda name: Q(source_compute=name) | Q(dest_compute=name),
        "instance_uuid": _id("instance_id"),
        "user_id": _id("user_id"),
        "project_id": _id("project_id"),
        "changes_since": "updated_at__gte",
        "changes_before": "updated_at__lte",
    },
    marker="uuid",
)
"""``host`` matches the source or the destination; the time is the time of the last change."""


def migrations_for(
    context: RequestContext, filters: Mapping[str, Any], *, limit: int | None = None, marker: str | None = None
) -> list[Migration]:
    """Return migrations of all projects, or of the requested one, newest first.

    ``filters`` are those of ``MIGRATIONS``, ``source_compute``, ``status`` and ``migration_type``; None: not filtered.
    An invalid id matches nothing. ``marker`` is a UUID.

    Raises ForbiddenError, as in Nova, for all projects or another project than the caller's unless the caller is an
    operator, and InvalidInputError for an unknown marker.
    """
    policy.enforce(context, "os_compute_api:os-migrations:index")
    everything = policy.allows(context, EVERY_PROJECT)
    if context.project_id is None or read_id(filters.get("project_id")) != context.project_id:
        policy.enforce(context, EVERY_PROJECT)
    among = Migration.objects.all() if everything else Migration.objects.filter(project_id=context.project_id)
    narrowed = [(name, value) for name, value in filters.items() if value is not None]
    return MIGRATIONS.page(among, Part(narrowed, limit=limit, marker=marker))


def all_migrations(context: RequestContext) -> QuerySet[Migration]:
    """Return the migrations of all projects, in any order. Raises ForbiddenError."""
    policy.enforce(context, EVERY_PROJECT)
    return Migration.objects.all()


def nodes_of(migrations: Iterable[Migration]) -> dict[str, str]:
    """Return host → name of its hypervisor, for the existing hosts of these migrations; one query."""
    names = {name for row in migrations for name in (row.source_compute, row.dest_compute)}
    return dict(Host.objects.filter(name__in=names).values_list("name", "hypervisor_hostname"))
