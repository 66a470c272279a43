"""Advice in place of errors of services."""

from collections.abc import Mapping

from provisioning.common.errors import NovellaError
from provisioning.network import errors

SENTENCES: Mapping[type[NovellaError], str] = {
    errors.NetworkInUseError: "The network is still in use: delete or disconnect its ports first.",
    errors.ExternalNetworkInUseError: "Floating IPs or routers need the network to be external.",
    errors.InvalidSharedSettingError: "Other projects use the network: it must stay shared.",
    errors.SubnetInUseError: "Addresses of the subnet are still in use: delete or disconnect their ports first.",
    errors.GatewayIpInUseError: "A router uses the gateway address: disconnect it first.",
    errors.RouterInUseError: "Networks or floating IPs are still connected to the router: remove these first.",
    errors.RouterInterfaceInUseByFloatingIPError: ("Floating IPs use this interface: disassociate them first."),
    errors.RouterInterfaceInUseByRouteError: "Extra routes use this interface: remove them first.",
    errors.RouterExternalGatewayInUseByFloatingIpError: ("Floating IPs use the gateway: disassociate them first."),
    errors.PortSecurityAndIPRequiredForSecurityGroupsError: (
        "Security groups need port security and an address: select no group, or enable port security."
    ),
    errors.PortSecurityPortHasSecurityGroupError: (
        "Security groups need port security: remove the port's groups first."
    ),
    errors.AddressPairAndPortSecurityRequiredError: (
        "Without port security the port can send from every address: leave this empty."
    ),
    errors.SecurityGroupCannotRemoveDefaultError: "The default group of a project cannot be deleted.",
}
