"""Errors of ports, with Neutron's names and messages."""

from provisioning.common.errors import ConflictError, InvalidInputError


class MacAddressInUseError(ConflictError):
    """Another port of the network has the MAC address."""


class IpAddressGenerationFailureError(ConflictError):
    """The subnets have no address left."""


class PortBoundError(ConflictError):
    """The port's MAC address cannot change while a guest uses it."""


class ServicePortInUseError(ConflictError):
    """A router, a floating IP or DHCP uses the port."""


class AddressPairAndPortSecurityRequiredError(ConflictError):
    """Allowed address pairs require port security."""


class PortSecurityPortHasSecurityGroupError(ConflictError):
    """Port security cannot be disabled while the port has security groups."""


class PortSecurityAndIPRequiredForSecurityGroupsError(InvalidInputError):
    """Security groups require port security."""


class PortRequiresFixedIPError(InvalidInputError):
    """A server cannot use a port without an address."""

    def __init__(self, port_id: object, field: str = "networks") -> None:
        super().__init__(f"Port {port_id} requires a FixedIP in order to be used.", field=field)


class InvalidIpForNetworkError(InvalidInputError):
    """The address is outside the network's subnets."""


class InvalidIpForSubnetError(InvalidInputError):
    """The address is outside the subnet."""


class AllocationOnAutoAddressSubnetError(InvalidInputError):
    """The address belongs to a subnet where guests configure their own addresses."""
