"""Advice for a failed launch, by the filter that left no host."""

from provisioning.compute.selectors.explained import Explained

AGAIN = "Delete the instance, since it counts towards the quota, and launch again."
ASK = f"{AGAIN} If it fails again, send the request id below to an operator."
_SMALLER = "or delete instances you no longer need, then launch again."
ADVICE = {
    "ComputeFilter": "No host is up. Ask an operator to enable or repair one, then launch again.",
    "RequestedHostFilter": "Launch again without naming a host, or name one that is up.",
    "IgnoredHostsFilter": "Launch again and exclude fewer hosts.",
    "RequireZoneFilter": "Launch again in one of the availability zones.",
    "AvailabilityZoneFilter": "Launch again in another availability zone, or without a zone.",
    "ImagePropertiesFilter": ("Choose an image for the architecture and hypervisor of the hosts, then launch again."),
    "HostNeedsFilter": "Choose another size or image, or ask an operator for hosts that support their requirements.",
    "ComputeCapabilitiesFilter": "Choose another size, or ask an operator for hosts that meet its requirements.",
    "CpuFeaturesFilter": "Ask an operator for a host whose processor has the features that the instance uses.",
    "JsonFilter": "Launch again without the hint query, or with one that hosts can meet.",
    "AggregateInstanceExtraSpecsFilter": "Choose another size, or ask an operator for hosts of this kind.",
    "SameHostFilter": "Launch again without the hint same_host, or name instances that exist.",
    "DifferentHostFilter": "Launch again with fewer instances in the hint different_host.",
    "ServerGroupAffinityFilter": (
        "The host of the server group is full or down. Launch again in no group, or in another one."
    ),
    "ServerGroupAntiAffinityFilter": (
        "Every host has instances of the group. Launch again in no group, or in a group with a soft policy."
    ),
    "RetryFilter": "Every host has failed to build it. Send the request id below to an operator.",
    "NumInstancesFilter": (
        "Every host has reached its maximum number of instances. Delete some, or ask an operator for more hosts."
    ),
    "IoOpsFilter": (
        "The hosts are busy building other instances. Delete this one, wait some minutes, then launch again."
    ),
    "CoreFilter": f"Choose a size with fewer vCPUs, {_SMALLER}",
    "RamFilter": f"Choose a size with less memory, {_SMALLER}",
    "DiskFilter": f"Choose a size with a smaller disk, {_SMALLER}",
}
"""Filter → advice; custom filters have none."""


def advice_on(decision: Explained | None) -> str:
    """Return the advice for a launch with this latest decision."""
    stopper = decision.stopper if decision is not None else None
    if stopper is None:
        return ASK
    return ADVICE.get(stopper.result.name, ASK)
