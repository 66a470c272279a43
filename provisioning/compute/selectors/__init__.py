"""Queries of compute. Code that acts for a user calls only the functions ``…_for(context, …)``."""

from provisioning.compute.selectors.catalog import (
    Limits,
    flavor_access_for,
    flavor_for,
    flavors_for,
    key_pair_for,
    key_pair_user,
    key_pairs_for,
    limits_for,
    own_key_pairs,
    visible_flavors,
)
from provisioning.compute.selectors.explained import decisions_for
from provisioning.compute.selectors.history import (
    Step,
    action_for,
    actions_for,
    decision_for,
    running_steps_of,
    steps_of,
    timeline_for,
    tunnels_of,
)
from provisioning.compute.selectors.host_rows import host_states
from provisioning.compute.selectors.instances import (
    count_for,
    fault_of,
    has_its_name_alone,
    instance_for,
    instances_for,
    rows_with_ended,
)
from provisioning.compute.selectors.migrations import migrations_for, nodes_of
from provisioning.hosts.selectors import availability_zones, hosts_for, is_alive

__all__ = [
    "Limits",
    "Step",
    "action_for",
    "actions_for",
    "availability_zones",
    "count_for",
    "decision_for",
    "decisions_for",
    "fault_of",
    "flavor_access_for",
    "flavor_for",
    "flavors_for",
    "has_its_name_alone",
    "host_states",
    "hosts_for",
    "instance_for",
    "instances_for",
    "is_alive",
    "key_pair_for",
    "key_pair_user",
    "key_pairs_for",
    "limits_for",
    "migrations_for",
    "nodes_of",
    "own_key_pairs",
    "rows_with_ended",
    "running_steps_of",
    "steps_of",
    "timeline_for",
    "tunnels_of",
    "visible_flavors",
]
