"""What can go wrong with ports, by Neutron's names and in its sentences."""

from provisioning.common.errors import ConflictError, InvalidInputError


class MacAddressInUseError(ConflictError):
    """Another port of the network has the MAC address."""


class IpAddressGenerationFailureError(ConflictError):
    """The subnets have no address left."""


class PortBoundError(ConflictError):
    """A guest has the interface with its MAC address."""


class ServicePortInUseError(ConflictError):
    """A router, a floating IP or DHCP has the port."""


class AddressPairAndPortSecurityRequiredError(ConflictError):
    """Address pairs of a port that is held to nothing."""


class PortSecurityPortHasSecurityGroupError(ConflictError):
    """Groups of a port that is to be held to nothing."""


class PortSecurityAndIPRequiredForSecurityGroupsError(InvalidInputError):
    """Groups for a port that is held to nothing."""


class PortRequiresFixedIPError(InvalidInputError):
    """A port without an address that a server was to get."""

    def __init__(self, port_id: object, field: str = "networks") -> None:
        super().__init__(f"Port {port_id} requires a FixedIP in order to be used.", field=field)


class InvalidIpForNetworkError(InvalidInputError):
    """An address outside the network's subnets."""


class InvalidIpForSubnetError(InvalidInputError):
    """An address outside the subnet."""


class AllocationOnAutoAddressSubnetError(InvalidInputError):
    """An address of a subnet where guests make their own."""
