"""Server groups (Compute API reference, "Server groups")."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from portal.api.compute import dialect
from portal.api.frame import Attribute, Checked, Json, Operation, Parameter, Schema, Values, inner
from provisioning.compute.models import ServerGroup
from provisioning.compute.selectors.server_groups import members_of, server_group_for, server_groups_for
from provisioning.compute.services.server_groups import create_server_group, delete_server_group

LAST_HARD, SOFT = (2, 14), (2, 15)
"""The last version without soft policies, and the first with them."""
LAST_LIST, ONE_POLICY = (2, 63), (2, 64)
"""The last version with a list of policies, and the first in which a group has one policy with rules."""
_HARD = ("affinity", "anti-affinity")
_ANY = (*_HARD, *(f"soft-{name}" for name in _HARD))


def _policies(*names: str) -> Checked:
    """Return the kind of a list with one policy."""
    schema: Schema = {"type": "array", "items": {"enum": [*names]}, "minItems": 1, "maxItems": 1}
    return Checked(schema, reader=lambda policies: policies[0], writer=lambda policy: [policy])


def _most(rules: Json) -> int | None:
    most = rules.get("max_server_per_host")
    return None if most is None else int(most)


_RULES = Checked(inner({"max_server_per_host": dialect.POSITIVE}), reader=_most)


def _rules_of(row: ServerGroup) -> dict[str, int]:
    return {} if row.max_server_per_host is None else {"max_server_per_host": row.max_server_per_host}


class Members(Attribute):
    """The servers of a group."""

    def reader(self, view: Any, rows: Sequence[ServerGroup]) -> Callable[[ServerGroup], list[str]]:
        members = members_of(rows)
        return lambda row: [str(server) for server in members[row.id]]


def _list(view: dialect.ListView, query: Mapping[str, str]) -> list[ServerGroup]:
    part = dialect.WITH_OFFSET.read_part(view.request)
    return server_groups_for(view.context, part, all_projects="all_projects" in query)


def _show(view: dialect.ResourceView, identity: str) -> ServerGroup:
    return server_group_for(view.context, identity)


def _create(view: dialect.ResourceView, values: Values) -> ServerGroup:
    most = values.get("max_server_per_host")
    return create_server_group(view.context, values["name"], values["policy"], most)


def _delete(view: dialect.ResourceView, identity: str) -> None:
    delete_server_group(view.context, identity)


def _with(members: Attribute) -> tuple[Attribute, ...]:
    return (
        Attribute("id", dialect.ID),
        Attribute("name", Checked(dialect.NAME), post=True, required=True),
        members,
        Attribute("project_id", dialect.PROJECT, since=(2, 13)),
        Attribute("user_id", dialect.PROJECT, since=(2, 13)),
        Attribute("policies", _policies(*_HARD), column="policy", post=True, required=True, until=LAST_HARD),
        Attribute("policies", _policies(*_ANY), column="policy", post=True, required=True, since=SOFT, until=LAST_LIST),
        Attribute("metadata", dialect.SHOWN, show=lambda row: {}, until=LAST_LIST),
        Attribute("policy", Checked({"enum": [*_ANY]}), post=True, required=True, since=ONE_POLICY),
        Attribute("rules", _RULES, column="max_server_per_host", show=_rules_of, post=True, since=ONE_POLICY),
    )


SERVER_GROUP = dialect.Resource(
    name="server_group",
    path="os-server-groups",
    list=Operation(
        _list,
        "os_compute_api:os-server-groups:index",
        "List the project's groups. As in Nova, ``all_projects`` is ignored unless the caller may see the groups of all"
        " projects.",
        parameters=(
            Parameter("all_projects", dialect.TEXT),
            Parameter("limit", dialect.COUNT),
            Parameter("offset", dialect.COUNT),
        ),
    ),
    show=Operation(_show, "os_compute_api:os-server-groups:show"),
    create=Operation(
        _create,
        "os_compute_api:os-server-groups:create",
        shows=_with(Attribute("members", dialect.SHOWN, show=lambda row: [])),
    ),
    delete=Operation(
        _delete, "os_compute_api:os-server-groups:delete", "Delete a group; its servers are kept.", status=204
    ),
    attributes=_with(Members("members", dialect.SHOWN)),
)
