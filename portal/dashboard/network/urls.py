"""URLs of the networking pages."""

from django.urls import path

from portal.dashboard.network.floating_ips import of_ports
from portal.dashboard.network.floating_ips import views as floating
from portal.dashboard.network.networks import subnets
from portal.dashboard.network.networks import views as networks
from portal.dashboard.network.ports import groups as port_groups
from portal.dashboard.network.ports import views as ports
from portal.dashboard.network.routers import views as routers
from portal.dashboard.network.security_groups import views as groups

urlpatterns = [
    path("networks/", networks.NetworkList.as_view(), name="networks"),
    path("networks/create/", networks.NetworkCreate.as_view(), name="network_create"),
    path("networks/own/", networks.NetworkOwn.as_view(), name="network_own"),
    path("networks/<uuid:identity>/", networks.NetworkDetail.as_view(), name="network"),
    path("networks/<uuid:identity>/edit/", networks.NetworkEdit.as_view(), name="network_edit"),
    path("networks/<uuid:identity>/delete/", networks.NetworkDelete.as_view(), name="network_delete"),
    path("networks/<uuid:identity>/subnets/create/", subnets.SubnetCreate.as_view(), name="subnet_create"),
    path("networks/<uuid:identity>/ports/create/", ports.PortCreate.as_view(), name="port_create"),
    path("subnets/<uuid:identity>/edit/", subnets.SubnetEdit.as_view(), name="subnet_edit"),
    path("subnets/<uuid:identity>/delete/", subnets.SubnetDelete.as_view(), name="subnet_delete"),
    path("ports/<uuid:identity>/edit/", ports.PortEdit.as_view(), name="port_edit"),
    path("ports/<uuid:identity>/delete/", ports.PortDelete.as_view(), name="port_delete"),
    path("routers/", routers.RouterList.as_view(), name="routers"),
    path("routers/create/", routers.RouterCreate.as_view(), name="router_create"),
    path("routers/<uuid:identity>/", routers.RouterDetail.as_view(), name="router"),
    path("routers/<uuid:identity>/edit/", routers.RouterEdit.as_view(), name="router_edit"),
    path("routers/<uuid:identity>/delete/", routers.RouterDelete.as_view(), name="router_delete"),
    path("routers/<uuid:identity>/gateway/", routers.RouterGateway.as_view(), name="router_gateway"),
    path("routers/<uuid:identity>/gateway/clear/", routers.RouterGatewayClear.as_view(), name="router_gateway_clear"),
    path("routers/<uuid:identity>/interfaces/add/", routers.InterfaceAdd.as_view(), name="router_interface_add"),
    path(
        "routers/<uuid:identity>/interfaces/<uuid:port>/remove/",
        routers.InterfaceRemove.as_view(),
        name="router_interface_remove",
    ),
    path("routers/<uuid:identity>/routes/add/", routers.RouteAdd.as_view(), name="router_route_add"),
    path("routers/<uuid:identity>/routes/remove/", routers.RouteRemove.as_view(), name="router_route_remove"),
    path("floating-ips/", floating.FloatingList.as_view(), name="floating_ips"),
    path("floating-ips/allocate/", floating.FloatingAllocate.as_view(), name="floating_ip_allocate"),
    path("floating-ips/<uuid:identity>/", floating.FloatingDetail.as_view(), name="floating_ip"),
    path("floating-ips/<uuid:identity>/release/", floating.FloatingRelease.as_view(), name="floating_ip_release"),
    path("floating-ips/<uuid:identity>/associate/", floating.FloatingAssociate.as_view(), name="floating_ip_associate"),
    path(
        "floating-ips/<uuid:identity>/disassociate/",
        floating.FloatingDisassociate.as_view(),
        name="floating_ip_disassociate",
    ),
    path("floating-ips/<uuid:identity>/forwardings/add/", floating.ForwardingAdd.as_view(), name="forwarding_add"),
    path(
        "floating-ips/<uuid:identity>/forwardings/<uuid:forwarding>/edit/",
        floating.ForwardingEdit.as_view(),
        name="forwarding_edit",
    ),
    path(
        "floating-ips/<uuid:identity>/forwardings/<uuid:forwarding>/delete/",
        floating.ForwardingDelete.as_view(),
        name="forwarding_delete",
    ),
    path("ports/<uuid:identity>/floating-ip/", of_ports.PortFloating.as_view(), name="port_floating_ip"),
    path("ports/<uuid:identity>/security-groups/", port_groups.PortGroups.as_view(), name="port_groups"),
    path("security-groups/", groups.GroupList.as_view(), name="security_groups"),
    path("security-groups/create/", groups.GroupCreate.as_view(), name="security_group_create"),
    path("security-groups/<uuid:identity>/", groups.GroupDetail.as_view(), name="security_group"),
    path("security-groups/<uuid:identity>/edit/", groups.GroupEdit.as_view(), name="security_group_edit"),
    path("security-groups/<uuid:identity>/delete/", groups.GroupDelete.as_view(), name="security_group_delete"),
    path("security-groups/<uuid:identity>/rules/add/", groups.RuleAdd.as_view(), name="security_group_rule_add"),
    path(
        "security-group-rules/<uuid:identity>/delete/", groups.RuleDelete.as_view(), name="security_group_rule_delete"
    ),
]
