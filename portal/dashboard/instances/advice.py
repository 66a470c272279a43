"""What a person can do about a launch that failed, by the filter that left no host."""

from __future__ import annotations

from provisioning.compute.selectors.explained import Explained

AGAIN = "Delete it, since it counts in the quota until then, and launch again."
ASK = f"{AGAIN} If it fails the same way, give the request id below to an operator."
_SMALLER = "or delete instances you no longer need, then launch again."
ADVICE = {
    "enabled_and_alive": "No host is at work. Ask an operator to enable or repair one, then launch again.",
    "requested_host": "Launch again without naming a host, or name one that is at work.",
    "ignored_hosts": "Launch again and leave out fewer hosts.",
    "availability_zone": "Launch again in another availability zone, or leave the choice open.",
    "architecture": "Choose an image that is made for the hosts' processors, then launch again.",
    "hypervisor": "Choose an image that is made for the hosts' hypervisor, then launch again.",
    "capabilities": "Choose another size, or ask an operator for hosts that have what this one asks for.",
    "query": "Launch again without the hint query, or with one that hosts can meet.",
    "aggregate_extra_specs": "Choose another size, or ask an operator for hosts of this kind.",
    "same_host": "Launch again without the hint same_host, or name servers that are there.",
    "different_host": "Launch again with fewer servers in the hint different_host.",
    "group_affinity": "The host of the server group is full or away. Launch again in no group, or in another one.",
    "group_anti_affinity": "Every host has its servers of the group. Launch again in no group, or in a soft one.",
    "not_tried_before": "Every host has failed to build it. Give the request id below to an operator.",
    "number_of_instances": "Every host has as many servers as it may. Delete some, or ask an operator for more.",
    "io_operations": "The hosts are busy building others. Delete it, wait some minutes, then launch again.",
    "vcpus": f"Choose a size with fewer vCPUs, {_SMALLER}",
    "ram": f"Choose a size with less memory, {_SMALLER}",
    "disk": f"Choose a size with a smaller disk, {_SMALLER}",
}
"""Filter → what to do; a filter of the operators' own is their affair."""
ROOM = frozenset({"vcpus", "ram", "disk"})
"""Filters that look for room: a smaller size may fit."""


def advice_on(decision: Explained | None) -> str:
    """Return what to do about a launch whose newest decision this is."""
    stopper = decision.stopper if decision is not None else None
    if stopper is None:
        return ASK
    return ADVICE.get(stopper.result.name, ASK)
