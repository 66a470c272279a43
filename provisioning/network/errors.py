"""What can go wrong with networks, in words for their users."""

from provisioning.common.errors import ConflictError, NotFoundError, NovellaError


class OutOfAddressesError(NovellaError):
    """No free address is left on the network; another host would not help, so it is fatal for a launch."""

    code = "out_of_addresses"


class AmbiguousNetworkError(ConflictError):
    """A network has to be chosen, and more than one is possible."""

    code = "ambiguous_network"


class NetworkNotFoundError(NotFoundError):
    """No such network, or not the caller's."""


class SubnetNotFoundError(NotFoundError):
    """No such subnet, or not the caller's."""


class PortNotFoundError(NotFoundError):
    """No such port, or not the caller's."""


class SecurityGroupNotFoundError(NotFoundError):
    """No such security group, or not the caller's."""


class SecurityGroupRuleNotFoundError(NotFoundError):
    """No such rule, or not the caller's."""
