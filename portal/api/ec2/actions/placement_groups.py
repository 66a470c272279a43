"""Placement groups, which are server groups: CreatePlacementGroup, DescribePlacementGroups, DeletePlacementGroup.

The strategy ``cluster`` is the policy affinity, ``spread`` is anti-affinity. The Compute API also creates groups with
the soft variants of these policies, and several groups with one name.
"""

from collections.abc import Sequence

from django.db.models import QuerySet

from portal.api.ec2.describe import Column, Described
from portal.api.ec2.frame import Arguments, Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.compute.models import ServerGroup
from provisioning.compute.selectors.server_groups import visible_server_groups
from provisioning.compute.services.server_groups import create_server_group, delete_server_group

KIND = names.PLACEMENT_GROUP
CLUSTER, SPREAD = "cluster", "spread"
POLICIES = {CLUSTER: ServerGroup.Policy.AFFINITY, SPREAD: ServerGroup.Policy.ANTI_AFFINITY}
"""Strategy of a new group → its policy."""
STRATEGIES = {
    ServerGroup.Policy.AFFINITY: CLUSTER,
    ServerGroup.Policy.SOFT_AFFINITY: CLUSTER,
    ServerGroup.Policy.ANTI_AFFINITY: SPREAD,
    ServerGroup.Policy.SOFT_ANTI_AFFINITY: SPREAD,
}
HOST = "host"
"""The only level at which this cloud spreads instances."""
DUPLICATE = "InvalidPlacementGroup.Duplicate"


@action(
    "CreatePlacementGroup",
    "os_compute_api:os-server-groups:create",
    takes="GroupName Strategy SpreadLevel TagSpecifications",
    conflict=DUPLICATE,
)
def create(call: Call) -> Shape:
    """Create a group whose instances run on one host (``cluster``) or on different hosts (``spread``)."""
    specified, name = tags.specified(call, KIND), call.get("GroupName")
    if not name:
        raise errors.missing_parameter("GroupName")
    group = create_server_group(call.context, name, _policy(call), unique=True)
    tags.write(call, KIND, [group.id], specified)
    return {"PlacementGroup": _shapes(call, [group])[0]}


def _policy(call: Call) -> str:
    strategy, level = call.get("Strategy", CLUSTER), call.get("SpreadLevel")
    if strategy not in POLICIES:
        raise errors.unsupported(
            f"The strategy {strategy[:40]} is not supported by this cloud: use {CLUSTER} or {SPREAD}"
        )
    if level and strategy != SPREAD:
        raise errors.combination("SpreadLevel is only for the strategy spread")
    if level not in (None, HOST):
        raise errors.unsupported(f"This cloud spreads instances over hosts: the SpreadLevel is {HOST}")
    return POLICIES[strategy]


def named(call: Call, name: str) -> ServerGroup:
    """Return the project's group with this name. Raises Ec2Error if no group has it, or several have it."""
    groups = list(visible_server_groups(call.context).filter(name=name).order_by("created_at", "id")[:2])
    if not groups:
        raise _unknown(name)
    if len(groups) > 1:
        raise Ec2Error(DUPLICATE, f"Several Placement Groups have the name '{name[:120]}'; specify the id.")
    return groups[0]


def of_placement(call: Call, placement: Arguments) -> ServerGroup | None:
    """Return the group that a launch's placement names by name or id; None if it names no group. Raises Ec2Error."""
    name, ec2_id = placement.get("GroupName"), placement.get("GroupId")
    if name and ec2_id:
        raise errors.combination("Specify the name or the id of the placement group, not both")
    if ec2_id:
        return names.one(KIND, ec2_id, visible_server_groups(call.context))
    return named(call, name) if name else None


def _unknown(name: str) -> Ec2Error:
    return Ec2Error(KIND.missing, f"The Placement Group '{name[:120]}' is unknown.")


def _rows(call: Call) -> QuerySet[ServerGroup]:
    return names.with_names(visible_server_groups(call.context), "name", call.get("GroupNames", []), _unknown)


def _shapes(call: Call, groups: Sequence[ServerGroup]) -> list[Shape]:
    keys = [group.id for group in groups]
    ec2_ids, tagged = KIND.ids_of(keys), tags.shapes(KIND, keys)
    return [_shape(call, group) | {"GroupId": ec2_ids[group.id], "Tags": tagged[group.id]} for group in groups]


def _shape(call: Call, group: ServerGroup) -> Shape:
    strategy = STRATEGIES[ServerGroup.Policy(group.policy)]
    return {
        "GroupName": group.name,
        "GroupArn": f"arn:aws:ec2:{call.region}:{group.project_id.hex}:placement-group/{group.name}",
        "State": "available",
        "Strategy": strategy,
        "SpreadLevel": HOST if strategy == SPREAD else None,
    }


DESCRIBE_PLACEMENT_GROUPS = Described(
    action="DescribePlacementGroups",
    rule="os_compute_api:os-server-groups:index",
    member="PlacementGroups",
    kind=KIND,
    ids="GroupIds",
    paged=False,
    takes="GroupNames",
    rows=_rows,
    shape=_shapes,
    filters={
        "group-name": Column("GroupName", "name"),
        "group-arn": "GroupArn",
        "spread-level": "SpreadLevel",
        "state": "State",
        "strategy": "Strategy",
    },
)


@action(
    "DeletePlacementGroup",
    "os_compute_api:os-server-groups:delete",
    takes="GroupName",
    missing=KIND.missing,
    conflict="InvalidPlacementGroup.InUse",
)
def delete(call: Call) -> Shape:
    """Delete a group without instances."""
    delete_server_group(call.context, named(call, call.arguments["GroupName"]).id, empty=True)
    return {}
