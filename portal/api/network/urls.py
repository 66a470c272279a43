"""Networking API under ``/network``; a slash or ``.json`` at the end makes no difference, as in Neutron."""

from django.urls import URLPattern, URLResolver, re_path

from portal.api.common.views import NoSuchResource
from portal.api.network import extensions, quotas, versions, views

END = r"(?:\.json)?/?$"

urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^/?$", versions.Versions.as_view()),
    re_path(rf"^/v2\.0{END}", versions.Resources.as_view()),
    re_path(rf"^/v2\.0/extensions{END}", extensions.Extensions.as_view()),
    re_path(rf"^/v2\.0/extensions/(?P<alias>[^/]+?){END}", extensions.Extension.as_view()),
    *(
        re_path(rf"^/v2\.0/{path}{tail}{END}", view.as_view())
        for path, many, one in (
            ("networks", views.Networks, views.NetworkDetail),
            ("subnets", views.Subnets, views.SubnetDetail),
            ("ports", views.Ports, views.PortDetail),
            ("security-groups", views.SecurityGroups, views.SecurityGroupDetail),
            ("security-group-rules", views.SecurityGroupRules, views.SecurityGroupRuleDetail),
        )
        for tail, view in (("", many), (r"/(?P<identity>[^/]+?)", one))
    ),
    re_path(rf"^/v2\.0/quotas{END}", quotas.Quotas.as_view()),
    re_path(rf"^/v2\.0/quotas/tenant{END}", quotas.QuotaTenant.as_view()),
    re_path(rf"^/v2\.0/quotas/project{END}", quotas.QuotaTenant.as_view()),
    re_path(rf"^/v2\.0/quotas/(?P<project_id>[^/]+?)/default{END}", quotas.QuotaDefaults.as_view()),
    re_path(rf"^/v2\.0/quotas/(?P<project_id>[^/]+?)/details{END}", quotas.QuotaUsage.as_view()),
    re_path(rf"^/v2\.0/quotas/(?P<project_id>[^/]+?){END}", quotas.QuotaDetail.as_view()),
    re_path(r"", NoSuchResource.of("network")),
]
