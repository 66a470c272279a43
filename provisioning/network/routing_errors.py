"""What can go wrong with routers and floating IPs, by Neutron's names and in its sentences."""

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError


class BadRequestError(InvalidInputError):
    """What is asked for makes no sense here."""


class RouterNotFoundError(NotFoundError):
    """No such router, or not the caller's."""


class RouterInUseError(ConflictError):
    """The router has interfaces."""


class RouterInterfaceNotFoundError(NotFoundError):
    """The router has no such interface."""


class RouterInterfaceNotFoundForSubnetError(NotFoundError):
    """The router has no interface on the subnet."""


class RouterInterfaceInUseByFloatingIPError(ConflictError):
    """Floating IPs lead through the interface."""


class RouterInterfaceInUseByRouteError(ConflictError):
    """Routes lead through the interface."""


class RouterExternalGatewayInUseByFloatingIpError(ConflictError):
    """Floating IPs lead through the gateway."""


class InvalidRoutesError(InvalidInputError):
    """Routes that lead nowhere."""


class RoutesExhaustedError(InvalidInputError):
    """More routes than a router may have."""


class PortInUseError(ConflictError):
    """A device has the port."""


class IpAddressInUseError(ConflictError):
    """A port has the address."""


class FloatingIPNotFoundError(NotFoundError):
    """No such floating IP, or not the caller's."""


class ExternalGatewayForFloatingIPNotFoundError(NotFoundError):
    """No router leads from the port to the external network."""


class FloatingIPPortAlreadyAssociatedError(ConflictError):
    """The fixed address has a floating IP."""


class FipInUseByPortForwardingError(ConflictError):
    """The floating IP forwards ports."""


class PortHasPortForwardingError(InvalidInputError):
    """Ports are forwarded to the port: it has no floating IP of its own."""


class PortHasBindingFloatingIPError(ConflictError):
    """The port has a floating IP: no ports are forwarded to it."""


class PortForwardingNotFoundError(NotFoundError):
    """No such port forwarding."""


class VpcInUseError(ConflictError):
    """A network of EC2 has subnets, or a way out."""


class GatewayAttachedError(ConflictError):
    """An internet gateway is at a router, or a router has one."""
