"""Errors of agents and auto-allocated topologies, with Neutron's names and messages."""

from provisioning.common.errors import ConflictError, NotFoundError


class AgentNotFoundError(NotFoundError):
    """No such agent."""


class AvailabilityZoneNotFoundError(NotFoundError):
    """A hint names an availability zone without hosts."""


class AutoAllocationFailureError(ConflictError):
    """A network and a router cannot be allocated automatically."""
