"""Advice in place of errors of services."""

from collections.abc import Mapping

from provisioning.common.errors import NovellaError
from provisioning.network import errors, group_errors, port_errors, routing_errors, subnet_errors

SENTENCES: Mapping[type[NovellaError], str] = {
    errors.NetworkInUseError: "The network is still in use: delete or disconnect its ports first.",
    errors.ExternalNetworkInUseError: "Floating IPs or routers need the network to be external.",
    errors.InvalidSharedSettingError: "Other projects use the network: it must stay shared.",
    subnet_errors.SubnetInUseError: "Addresses of the subnet are still in use: delete or disconnect their ports first.",
    subnet_errors.GatewayIpInUseError: "A router uses the gateway address: disconnect it first.",
    routing_errors.RouterInUseError: "Networks or floating IPs are still connected to the router: remove these first.",
    routing_errors.RouterInterfaceInUseByFloatingIPError: ("Floating IPs use this interface: disassociate them first."),
    routing_errors.RouterInterfaceInUseByRouteError: "Extra routes use this interface: remove them first.",
    routing_errors.RouterExternalGatewayInUseByFloatingIpError: (
        "Floating IPs use the gateway: disassociate them first."
    ),
    port_errors.PortSecurityAndIPRequiredForSecurityGroupsError: (
        "Security groups need port security and an address: select no group, or enable port security."
    ),
    port_errors.PortSecurityPortHasSecurityGroupError: (
        "Security groups need port security: remove the port's groups first."
    ),
    port_errors.AddressPairAndPortSecurityRequiredError: (
        "Without port security the port can send from every address: leave this empty."
    ),
    group_errors.SecurityGroupCannotRemoveDefaultError: "The default group of a project cannot be deleted.",
}
