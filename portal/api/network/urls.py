"""Networking API under ``/network``; a trailing slash or ``.json`` is optional, as in Neutron."""

from django.urls import re_path

from portal.api.frame import NoSuchResource
from portal.api.network import quotas, versions
from portal.api.network.dialect import views
from portal.api.network.registry import RESOURCES
from portal.api.network.resources import agents, bindings, floating_ips, routers, security_groups, subnetpools
from portal.common.http.routing import by_prefix

FLOATING = r"floatingips/(?P<identity>[^/]+?)"
PARTS = versions.PARTS | quotas.PARTS | security_groups.PARTS | subnetpools.PARTS | routers.PARTS
PARTS |= floating_ips.PARTS | bindings.PARTS
END = r"(?:\.json)?/?$"

urlpatterns = by_prefix(
    [
        re_path(r"^/?$", versions.VERSIONS.as_view()),
        re_path(rf"^/v2\.0{END}", versions.V2.as_view()),
        *(re_path(rf"^/v2\.0/{where}{END}", view.as_view()) for where, view in views.patterns(PARTS).items()),
        *(
            re_path(rf"^/v2\.0/{path}{END}", view.as_view())
            for resource in RESOURCES
            for path, view in views.views_of(resource).items()
        ),
        re_path(rf"^/v2\.0/{FLOATING}/port_forwardings{END}", floating_ips.Forwardings.as_view()),
        re_path(
            rf"^/v2\.0/auto-allocated-topology/(?P<project_id>[^/]+?){END}",
            agents.AutoAllocatedTopologyView.as_view(),
        ),
        re_path(r"", NoSuchResource.of("network")),
    ]
)
