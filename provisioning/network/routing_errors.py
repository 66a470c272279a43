"""Errors of routers and floating IPs, with Neutron's names and messages."""

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError


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
