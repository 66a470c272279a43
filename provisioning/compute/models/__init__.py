"""Models of instances and their records, with Nova's fields."""

from provisioning.compute.models.block_devices import BlockDevice
from provisioning.compute.models.catalog import Flavor, FlavorAccess, KeyPair
from provisioning.compute.models.groups import Aggregate, AggregateHost, ServerGroup
from provisioning.compute.models.history import (
    InstanceAction,
    InstanceActionEvent,
    Migration,
    SchedulingDecision,
    Total,
    UsageAudit,
)
from provisioning.compute.models.instances import (
    Allocation,
    ConsoleToken,
    FirmwareState,
    Instance,
    InstanceFault,
    InstanceTag,
    NewerGuest,
)
from provisioning.compute.models.interface_differences import InterfaceDifference
from provisioning.compute.models.moves import MoveAllocation

__all__ = [
    "Aggregate",
    "AggregateHost",
    "Allocation",
    "BlockDevice",
    "ConsoleToken",
    "FirmwareState",
    "Flavor",
    "FlavorAccess",
    "Instance",
    "InstanceAction",
    "InstanceActionEvent",
    "InstanceFault",
    "InstanceTag",
    "InterfaceDifference",
    "KeyPair",
    "Migration",
    "MoveAllocation",
    "NewerGuest",
    "SchedulingDecision",
    "ServerGroup",
    "Total",
    "UsageAudit",
]
