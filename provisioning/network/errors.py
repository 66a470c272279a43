"""Errors of the networking services. Those without a message of their own get Neutron's names and messages."""

from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, NovellaError


class OutOfAddressesError(NovellaError):
    """No free address is left on the network.  Another host would not help, so the error is fatal for a launch."""

    code = "out_of_addresses"


class AmbiguousNetworkError(ConflictError):
    """The request names no network, and several are possible."""

    code = "ambiguous_network"


class ExternalNetworkAttachForbiddenError(ForbiddenError):
    """The external network is not shared: guests cannot be attached to it."""

    def __init__(self, network_id: object, *, field: str) -> None:
        super().__init__(f"It is not allowed to create an interface on external network {network_id}", field=field)


class NetworkNotFoundError(NotFoundError):
    """The network does not exist or is not visible to the caller."""


class SubnetNotFoundError(NotFoundError):
    """The subnet does not exist or is not visible to the caller."""


class PortNotFoundError(NotFoundError):
    """The port does not exist or is not visible to the caller."""


class SecurityGroupNotFoundError(NotFoundError):
    """The security group does not exist or is not visible to the caller."""


class SecurityGroupRuleNotFoundError(NotFoundError):
    """The rule does not exist or is not visible to the caller."""


class RecordNotFoundError(NotFoundError):
    """A record was deleted since it was looked up."""

    def __init__(self, kind: str, key: object) -> None:
        super().__init__(f"{kind} {key} could not be found.")
        self.neutron_type = f"{kind}NotFound"


class TenantQuotaNotFoundError(NotFoundError):
    """The project has no quotas of its own."""


class TagNotFoundError(NotFoundError):
    """The record does not have this tag."""


class RevisionNumberConstraintFailedError(NovellaError):
    """The record's revision differs from the one in ``If-Match`` (412)."""

    code = "revision_number_constraint_failed"


class NetworkInUseError(ConflictError):
    """The network has ports."""


class InvalidSharedSettingError(ConflictError):
    """Sharing cannot end while other projects use the network."""


class ExternalNetworkInUseError(ConflictError):
    """Floating IPs or routers' gateways need the network to be external."""


class NoNetworkAvailableError(ConflictError):
    """No segment is left for a new network."""


class FlatNetworkInUseError(ConflictError):
    """The physical network carries another flat network."""


class VlanIdInUseError(ConflictError):
    """Another network has this VLAN."""


class TunnelIdInUseError(ConflictError):
    """Another network has this VNI."""


# ----- subnets, pools and address scopes ------------------------------------------------------------------------------


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


# ----- ports ----------------------------------------------------------------------------------------------------------


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


# ----- routers and floating IPs ---------------------------------------------------------------------------------------


class BadRequestError(InvalidInputError):
    """The request is not valid for this resource."""


class RouterNotFoundError(NotFoundError):
    """The router does not exist or is not visible to the caller."""


class RouterInUseError(ConflictError):
    """The router has interfaces."""


class RouterInterfaceNotFoundError(NotFoundError):
    """The router has no such interface."""


class RouterInterfaceNotFoundForSubnetError(NotFoundError):
    """The router has no interface on the subnet."""


class RouterInterfaceInUseByFloatingIPError(ConflictError):
    """Floating IPs are routed through the interface."""


class RouterInterfaceInUseByRouteError(ConflictError):
    """Routes have their next hop behind the interface."""


class RouterExternalGatewayInUseByFloatingIpError(ConflictError):
    """Floating IPs are routed through the gateway."""


class InvalidRoutesError(InvalidInputError):
    """A route's next hop is not reachable from the router."""


class RoutesExhaustedError(InvalidInputError):
    """More routes than a router may have."""


class PortInUseError(ConflictError):
    """A device uses the port."""


class PortBindingAlreadyActiveError(ConflictError):
    """The port is bound to this host already."""


class PortBindingInMigrationError(ConflictError):
    """The cloud itself binds the port to another host."""


class PortBindingNotFoundError(NotFoundError):
    """The port is not bound to this host."""


class IpAddressInUseError(ConflictError):
    """Another port has the address."""


class FloatingIPNotFoundError(NotFoundError):
    """The floating IP does not exist or is not visible to the caller."""


class ExternalGatewayForFloatingIPNotFoundError(NotFoundError):
    """No router connects the port's network to the external network."""


class FloatingIPPortAlreadyAssociatedError(ConflictError):
    """The fixed address already has a floating IP."""


class FipInUseByPortForwardingError(ConflictError):
    """The floating IP has port forwardings."""


class PortHasPortForwardingError(InvalidInputError):
    """The port has port forwardings, so it cannot have a floating IP of its own."""


class PortHasBindingFloatingIPError(ConflictError):
    """The port has a floating IP, so it cannot have port forwardings."""


class PortForwardingNotFoundError(NotFoundError):
    """No such port forwarding."""


class VpcInUseError(ConflictError):
    """The VPC has subnets or an internet gateway."""


class GatewayAttachedError(ConflictError):
    """The internet gateway is attached to a router, or the router already has one."""


# ----- security groups ------------------------------------------------------------------------------------------------


class SecurityGroupInUseError(ConflictError):
    """Ports use the group."""


class SecurityGroupCannotRemoveDefaultError(ConflictError):
    """A project's default group cannot be deleted."""


class SecurityGroupCannotUpdateDefaultError(ConflictError):
    """The default group cannot be renamed."""


class SecurityGroupDefaultAlreadyExistsError(ConflictError):
    """The project already has a group named default."""


class SecurityGroupRuleExistsError(ConflictError):
    """The group already has an equal rule."""


class DefaultSecurityGroupRuleExistsError(ConflictError):
    """An equal default rule already exists."""


class SecurityGroupRuleInvalidProtocolError(InvalidInputError):
    """The protocol is unknown."""


class SecurityGroupInvalidPortRangeError(InvalidInputError):
    """The first port exceeds the last one, or one of them is missing."""


class SecurityGroupInvalidPortValueError(InvalidInputError):
    """The port number is outside 1 to 65535."""


class SecurityGroupInvalidProtocolForPortError(InvalidInputError):
    """The rule has a port range, but its protocol has no ports."""


class SecurityGroupProtocolRequiredWithPortsError(InvalidInputError):
    """The rule has a port range but no protocol."""


class SecurityGroupInvalidIcmpValueError(InvalidInputError):
    """The ICMP type or code is outside 0 to 255."""


class SecurityGroupMissingIcmpTypeError(InvalidInputError):
    """The rule has an ICMP code but no type."""


class SecurityGroupEthertypeConflictWithProtocolError(InvalidInputError):
    """The protocol belongs to the other IP version."""


class SecurityGroupRuleParameterConflictError(InvalidInputError):
    """The range belongs to the other IP version."""


class SecurityGroupMultipleRemoteEntitiesError(InvalidInputError):
    """The rule has more than one remote."""

    neutron_type = "SecurityGroupMultipleRemoteEntites"


class SecurityGroupRuleInvalidEtherTypeError(InvalidInputError):
    """The ethertype is neither IPv4 nor IPv6."""

    neutron_type = "SecurityGroupRuleInvalidEtherType"


class SecurityGroupConflictError(ConflictError):
    """A port cannot have both stateful and stateless groups."""


class InvalidCIDRError(InvalidInputError):
    """The remote prefix is not a valid range."""


class SecurityGroupNotSingleGroupRulesError(InvalidInputError):
    """The rules of one request belong to several groups."""


class AddressGroupNotFoundError(NotFoundError):
    """The address group does not exist or is not visible to the caller."""


class AddressGroupInUseError(ConflictError):
    """Rules refer to the group."""


class AddressesNotFoundError(NotFoundError):
    """The group does not contain these ranges."""


class AddressesAlreadyExistError(InvalidInputError):
    """The group already contains these ranges."""


class DefaultSecurityGroupRuleNotFoundError(NotFoundError):
    """No such default rule."""


class SecurityGroupCannotBeAppliedError(InvalidInputError):
    """Security groups require an interface with port security; the message is Nova's."""

    def __init__(self, field: str = "security_groups") -> None:
        super().__init__(
            "Network requires port_security_enabled and subnet associated in order to apply security groups.",
            field=field,
        )


# ----- RBAC policies --------------------------------------------------------------------------------------------------


class RbacPolicyNotFoundError(NotFoundError):
    """The policy does not exist or is not visible to the caller."""


class RbacPolicyInUseError(ConflictError):
    """Another project uses the record that the policy shares with it."""


class DuplicateRbacPolicyError(ConflictError):
    """An equal policy already exists."""


# ----- agents and topologies ------------------------------------------------------------------------------------------


class AgentNotFoundError(NotFoundError):
    """No such agent."""


class AvailabilityZoneNotFoundError(NotFoundError):
    """A hint names an availability zone without hosts."""


class AutoAllocationFailureError(ConflictError):
    """A network and a router cannot be allocated automatically."""
