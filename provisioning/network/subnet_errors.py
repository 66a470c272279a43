"""What can go wrong with subnets, subnet pools and address scopes; each class has the name of Neutron's."""

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError


class SubnetPoolNotFoundError(NotFoundError):
    """No such subnet pool, or not the caller's."""


class AddressScopeNotFoundError(NotFoundError):
    """No such address scope, or not the caller's."""


class SubnetInUseError(ConflictError):
    """Ports have addresses of the subnet."""


class GatewayConflictWithAllocationPoolsError(ConflictError):
    """The gateway would be given to a guest."""


class GatewayIpInUseError(ConflictError):
    """A router has the gateway's address."""


class OverlappingAllocationPoolsError(ConflictError):
    """Two pools share addresses."""


class SubnetPoolQuotaExceededError(ConflictError):
    """The project has taken as much of the pool as it may."""


class AddressScopeInUseError(ConflictError):
    """Subnet pools are in the scope."""


class InvalidAllocationPoolError(InvalidInputError):
    """A pool that ends before it begins."""


class OutOfBoundsAllocationPoolError(InvalidInputError):
    """A pool that is not inside the range."""


class BadSubnetRequestError(InvalidInputError):
    """Neither a range nor a pool to take one from."""


class DNSNameServersExhaustedError(InvalidInputError):
    """More name servers than a subnet has."""


class HostRoutesExhaustedError(InvalidInputError):
    """More routes than a subnet has."""


class NetworkSubnetPoolAffinityError(InvalidInputError):
    """Ranges of one network come from one pool."""

    neutron_type = "NetworkSubnetPoolAffinityError"


class SubnetAllocationError(InvalidInputError):
    """The pool has no such range left."""

    neutron_type = "SubnetAllocationError"


class MinPrefixSubnetAllocationError(InvalidInputError):
    """A range larger than the pool gives."""

    neutron_type = "MinPrefixSubnetAllocationError"


class MaxPrefixSubnetAllocationError(InvalidInputError):
    """A range smaller than the pool gives."""

    neutron_type = "MaxPrefixSubnetAllocationError"


class IllegalSubnetPoolPrefixBoundsError(InvalidInputError):
    """Lengths of prefixes that do not go together."""


class IllegalSubnetPoolPrefixUpdateError(InvalidInputError):
    """Prefixes of a pool only grow."""


class PrefixVersionMismatchError(InvalidInputError):
    """Prefixes of IPv4 and IPv6 in one pool."""


class IllegalSubnetPoolIpVersionAssociationToAddressScopeError(InvalidInputError):
    """A scope of the other IP version."""


class AddressScopePrefixConflictError(ConflictError):
    """Another pool of the scope has these addresses."""


class AddressScopeUpdateError(InvalidInputError):
    """A scope that is everybody's stays so."""

    neutron_type = "AddressScopeUpdateError"


class SubnetPoolDeleteError(InvalidInputError):
    """Subnets are taken from the pool."""

    neutron_type = "SubnetPoolDeleteError"
