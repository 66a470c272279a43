"""What can go wrong with agents and with projects' own networks, by Neutron's names and in its sentences."""

from provisioning.common.errors import ConflictError, NotFoundError


class AgentNotFoundError(NotFoundError):
    """No such agent."""


class AvailabilityZoneNotFoundError(NotFoundError):
    """A hint names a zone without hosts."""


class AutoAllocationFailureError(ConflictError):
    """A project cannot be given a network and a router."""
