"""Errors of networks, with messages for users."""

from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError, NovellaError


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
