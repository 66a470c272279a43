"""Server groups: creation, deletion, and membership at launch; also the supported scheduler hints."""

from collections.abc import Mapping

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, OverQuotaError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.models import Instance, ServerGroup
from provisioning.compute.records.names import check_text
from provisioning.compute.selectors import server_groups as selectors
from provisioning.compute.state_machine import state
from provisioning.identity import policy
from provisioning.quotas import selectors as quota_limits
from provisioning.quotas.limits import UNLIMITED
from provisioning.quotas.services.ledger import hold, release
from provisioning.scheduler import check_query, options_of
from provisioning.scheduler.query import JsonFilter

NEAR_SERVERS = ("same_host", "different_host")
"""Scheduler hints whose values are ids of servers."""
QUERY = "query"
"""Hint with a condition on hosts."""
NOT_OFFERED = frozenset({"build_near_host_ip", "cidr", "target_cell"})
"""Hints of the API reference without a filter in this cloud; they are rejected, because they would have no effect."""
MOST_SERVERS = 1000
"""Maximum number of servers in a hint."""


def check_hints(hints: Mapping[str, object]) -> dict[str, object]:
    """Return the supported hints: ``group`` (an id), ``same_host`` and ``different_host`` (lists of ids), and ``query``
    (nested lists).

    Hints that the API reference does not have are ignored, as in Nova. Raises InvalidInputError with an invalid or
    unsupported hint.
    """
    offered = ["group", *NEAR_SERVERS, *([QUERY] if _has_queries() else [])]
    refused = sorted((NOT_OFFERED | {QUERY}).difference(offered) & hints.keys())
    if refused:
        raise InvalidInputError(
            f"The scheduler hint {refused[0]!r} is not offered by this cloud; use one of {', '.join(offered)}.",
            field=refused[0],
        )
    kept: dict[str, object] = {}
    if "group" in hints:
        kept["group"] = _id(hints["group"], "group")
    for name in NEAR_SERVERS:
        if name in hints:
            value = hints[name]
            named = value if isinstance(value, list | tuple) else [value]
            if len(named) > MOST_SERVERS:
                raise InvalidInputError(
                    f"Invalid input for {name}: it names {len(named)} servers; at most {MOST_SERVERS} are allowed.",
                    field=name,
                )
            kept[name] = [_id(item, name) for item in named]
    if QUERY in hints:
        kept[QUERY] = check_query(hints[QUERY])
    return kept


def _has_queries() -> bool:
    return any(isinstance(judge, JsonFilter) for judge in options_of(settings).filters)


def _id(value: object, hint: str) -> str:
    parsed = read_id(value)
    if parsed is None:
        raise InvalidInputError(f"Invalid input for {hint}: {str(value)[:64]!r} is not a 'uuid'.", field=hint)
    return str(parsed)


@when_broken_off
def create_server_group(
    context: RequestContext,
    name: str,
    policy_name: str,
    max_server_per_host: int | None = None,
    *,
    unique: bool = False,
) -> ServerGroup:
    """Create a group in the caller's project; ``policy_name`` is Nova's, ``max_server_per_host`` requires
    anti-affinity, ``unique`` that no other group of the project has the name.

    Raises ForbiddenError, InvalidInputError, ConflictError, and OverQuotaError (``server_groups``).
    """
    policy.enforce(context, "os_compute_api:os-server-groups:create")
    if context.project_id is None or context.user_id is None:
        raise ForbiddenError("A server group needs a project: use a token that is scoped to one.")
    if policy_name not in ServerGroup.Policy.values:
        raise InvalidInputError(f"Invalid input for policy: {policy_name[:64]!r} is not a policy.", field="policy")
    if max_server_per_host is not None:
        if policy_name != ServerGroup.Policy.ANTI_AFFINITY:
            raise InvalidInputError("Only anti-affinity policy supports rules.", field="rules")
        if not 1 <= max_server_per_host <= MAX_INTEGER:
            raise InvalidInputError(
                f"Invalid input for max_server_per_host: it must be from 1 to {MAX_INTEGER}.",
                field="max_server_per_host",
            )
    group = ServerGroup(
        project_id=context.project_id,
        user_id=context.user_id,
        name=check_text(name, "name", shortest=1),
        policy=policy_name,
        max_server_per_host=max_server_per_host,
    )
    with transaction.atomic():
        hold(group.project_id, group.id, {"server_groups": 1}, user_id=group.user_id)  # locks the project's counter
        if unique and ServerGroup.objects.filter(project_id=group.project_id, name=group.name).exists():
            raise ConflictError(f"The project has a server group named {group.name} already.")
        group.save(force_insert=True)
    return group


@when_broken_off
def delete_server_group(context: RequestContext, group_id: object, *, empty: bool = False) -> None:
    """Delete a group; its servers become independent. ``empty`` requires that it has none.

    Servers are locked before their group, as in scheduling. Raises ForbiddenError, NotFoundError, ConflictError.
    """
    policy.enforce(context, "os_compute_api:os-server-groups:delete")
    group = selectors.server_group_for(context, group_id)
    with transaction.atomic():
        state.lock(Instance.objects.filter(server_group=group).values_list("id", flat=True))
        if not ServerGroup.objects.select_for_update().filter(id=group.id).values_list("id"):
            raise NotFoundError(f"Instance group {group.id} could not be found.")
        if empty and Instance.objects.filter(server_group=group, deleted_at=None).exists():
            raise ConflictError(f"Server group {group.name} has servers.")
        Instance.objects.filter(server_group=group).update(server_group=None)
        ServerGroup.objects.filter(id=group.id).delete()
        release(group.id)


def group_for_launch(context: RequestContext, group_id: object, count: int = 1) -> ServerGroup:
    """Return the group that ``count`` new servers of the caller's project will join.

    Inside a transaction the group is locked until the transaction ends, so that concurrent launches cannot exceed the
    quota ``server_group_members``. Raises InvalidInputError for a group outside the project, and OverQuotaError.
    """
    rows = ServerGroup.objects.filter(id=read_id(group_id) or NOBODY, project_id=context.project_id or NOBODY)
    if connection.in_atomic_block:
        rows = rows.select_for_update(no_key=True)
    group = rows.first()
    if group is None:
        raise InvalidInputError(f"Instance group {str(group_id)[:64]} could not be found.", field="group")
    bounds = quota_limits.bounds_of(group.project_id, context.user_id)
    servers = Instance.objects.filter(server_group=group, deleted_at=None)
    _check_members(servers, count, bounds.project)
    mine = servers.filter(user_id=context.user_id or NOBODY)
    _check_members(mine, count, bounds.user, of_user=True)
    return group


def _check_members(
    servers: QuerySet[Instance], count: int, limits: Mapping[str, int], *, of_user: bool = False
) -> None:
    limit = limits.get("server_group_members", UNLIMITED)
    if limit == UNLIMITED:
        return
    members = servers.count()
    if members + count > limit:
        raise OverQuotaError("server_group_members", limit=limit, used=members, requested=count, of_user=of_user)
