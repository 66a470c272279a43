"""What can go wrong with networks, in words for their users."""

from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError, NovellaError


class OutOfAddressesError(NovellaError):
    """No free address is left on the network; another host would not help, so it is fatal for a launch."""

    code = "out_of_addresses"


class AmbiguousNetworkError(ConflictError):
    """A network has to be chosen, and more than one is possible."""

    code = "ambiguous_network"


class ExternalNetworkAttachForbiddenError(ForbiddenError):
    """An external network that is not shared: no guest is put on it."""

    def __init__(self, network_id: object, *, field: str) -> None:
        super().__init__(f"It is not allowed to create an interface on external network {network_id}", field=field)


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
    """The record is at another revision than ``If-Match`` asks for (412)."""

    code = "revision_number_constraint_failed"


class NetworkInUseError(ConflictError):
    """The network has ports."""


class InvalidSharedSettingError(ConflictError):
    """Other projects use what shall be shared no more."""


class ExternalNetworkInUseError(ConflictError):
    """Floating IPs or routers' gateways need the network to be external."""


class NoNetworkAvailableError(ConflictError):
    """No segment is left to give to a network."""


class FlatNetworkInUseError(ConflictError):
    """The physical network carries another flat network."""


class VlanIdInUseError(ConflictError):
    """Another network has this VLAN."""


class TunnelIdInUseError(ConflictError):
    """Another network has this VNI."""
