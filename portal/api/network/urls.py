"""Networking API under ``/network``; a trailing slash or ``.json`` is optional, as in Neutron."""

import re

from django.urls import re_path

from portal.api.common.views import NoSuchResource
from portal.api.network import extensions, quotas, versions
from portal.api.network.dialect.views import views_of
from portal.api.network.registry import RESOURCES
from portal.api.network.resources import address_groups, forwardings, routers, subnetpools, topology
from portal.common.routing import by_prefix

ROUTER = r"routers/(?P<identity>[^/]+?)"
FLOATING = r"floatingips/(?P<identity>[^/]+?)"
END = r"(?:\.json)?/?$"

urlpatterns = by_prefix(
    [
        re_path(r"^/?$", versions.VERSIONS.as_view()),
        re_path(rf"^/v2\.0{END}", versions.V2.as_view()),
        *(
            re_path(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+?)", rf"^/v2\.0/{where}") + END, view.as_view())
            for where, view in (extensions.PARTS | quotas.PARTS).items()
        ),
        *(
            re_path(rf"^/v2\.0/{path}{END}", view.as_view())
            for resource in RESOURCES
            for path, view in views_of(resource).items()
        ),
        re_path(
            rf"^/v2\.0/address-groups/(?P<identity>[^/]+?)/add_addresses{END}", address_groups.AddAddresses.as_view()
        ),
        re_path(
            rf"^/v2\.0/address-groups/(?P<identity>[^/]+?)/remove_addresses{END}",
            address_groups.RemoveAddresses.as_view(),
        ),
        re_path(rf"^/v2\.0/subnetpools/(?P<identity>[^/]+?)/add_prefixes{END}", subnetpools.AddPrefixes.as_view()),
        re_path(
            rf"^/v2\.0/subnetpools/(?P<identity>[^/]+?)/remove_prefixes{END}", subnetpools.RemovePrefixes.as_view()
        ),
        re_path(rf"^/v2\.0/{ROUTER}/add_router_interface{END}", routers.AddInterface.as_view()),
        re_path(rf"^/v2\.0/{ROUTER}/remove_router_interface{END}", routers.RemoveInterface.as_view()),
        re_path(rf"^/v2\.0/{ROUTER}/add_extraroutes{END}", routers.AddRoutes.as_view()),
        re_path(rf"^/v2\.0/{ROUTER}/remove_extraroutes{END}", routers.RemoveRoutes.as_view()),
        re_path(rf"^/v2\.0/{FLOATING}/port_forwardings{END}", forwardings.Forwardings.as_view()),
        re_path(rf"^/v2\.0/{FLOATING}/port_forwardings/(?P<forwarding>[^/]+?){END}", forwardings.Forwarding.as_view()),
        re_path(
            rf"^/v2\.0/auto-allocated-topology/(?P<project_id>[^/]+?){END}",
            topology.AutoAllocatedTopologyView.as_view(),
        ),
        re_path(r"", NoSuchResource.of("network")),
    ]
)
