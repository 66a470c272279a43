"""Errors of subnets, subnet pools and address scopes, with Neutron's names."""

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError


class SubnetPoolNotFoundError(NotFoundError):
    """The subnet pool does not exist or is not visible to the caller."""


class AddressScopeNotFoundError(NotFoundError):
    """The address scope does not exist or is not visible to the caller."""


class SubnetInUseError(ConflictError):
    """Ports have addresses of the subnet."""


class GatewayConflictWithAllocationPoolsError(ConflictError):
    """An allocation pool contains the gateway's address."""


class GatewayIpInUseError(ConflictError):
    """A router uses the gateway's address."""


class OverlappingAllocationPoolsError(ConflictError):
    """Two allocation pools overlap."""


class SubnetPoolQuotaExceededError(ConflictError):
    """The project has reached its quota of the subnet pool."""


class AddressScopeInUseError(ConflictError):
    """Subnet pools are in the scope."""


class InvalidAllocationPoolError(InvalidInputError):
    """The allocation pool ends before it begins."""


class OutOfBoundsAllocationPoolError(InvalidInputError):
    """The allocation pool is not inside the subnet's range."""


class BadSubnetRequestError(InvalidInputError):
    """The request has neither a range nor a subnet pool."""


class DNSNameServersExhaustedError(InvalidInputError):
    """More name servers than a subnet may have."""


class HostRoutesExhaustedError(InvalidInputError):
    """More routes than a subnet may have."""


class NetworkSubnetPoolAffinityError(InvalidInputError):
    """All ranges of a network must come from the same subnet pool."""

    neutron_type = "NetworkSubnetPoolAffinityError"


class SubnetAllocationError(InvalidInputError):
    """The subnet pool has no such range left."""

    neutron_type = "SubnetAllocationError"


class MinPrefixSubnetAllocationError(InvalidInputError):
    """The requested range is larger than the subnet pool allows."""

    neutron_type = "MinPrefixSubnetAllocationError"


class MaxPrefixSubnetAllocationError(InvalidInputError):
    """The requested range is smaller than the subnet pool allows."""

    neutron_type = "MaxPrefixSubnetAllocationError"


class IllegalSubnetPoolPrefixBoundsError(InvalidInputError):
    """The minimum, default and maximum prefix lengths contradict each other."""


class IllegalSubnetPoolPrefixUpdateError(InvalidInputError):
    """Prefixes can be added to a subnet pool but not removed."""


class PrefixVersionMismatchError(InvalidInputError):
    """A subnet pool has prefixes of both IPv4 and IPv6."""


class IllegalSubnetPoolIpVersionAssociationToAddressScopeError(InvalidInputError):
    """The address scope has the other IP version."""


class AddressScopePrefixConflictError(ConflictError):
    """Another pool of the address scope overlaps these prefixes."""


class AddressScopeUpdateError(InvalidInputError):
    """An address scope that is shared with all projects must remain shared."""

    neutron_type = "AddressScopeUpdateError"


class SubnetPoolDeleteError(InvalidInputError):
    """Subnets have ranges of the subnet pool."""

    neutron_type = "SubnetPoolDeleteError"
