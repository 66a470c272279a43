"""Networking API under ``/network``; a slash or ``.json`` at the end makes no difference, as in Neutron."""

from django.urls import re_path

from portal.api.common.views import NoSuchResource
from portal.api.network import extensions, quotas, versions
from portal.api.network.views import VIEWS
from portal.common.routing import by_prefix

END = r"(?:\.json)?/?$"

urlpatterns = by_prefix(
    [
        re_path(r"^/?$", versions.Versions.as_view()),
        re_path(rf"^/v2\.0{END}", versions.Resources.as_view()),
        re_path(rf"^/v2\.0/extensions{END}", extensions.Extensions.as_view()),
        re_path(rf"^/v2\.0/extensions/(?P<alias>[^/]+?){END}", extensions.Extension.as_view()),
        *(re_path(rf"^/v2\.0/{path}{END}", view.as_view()) for path, view in VIEWS.items()),
        re_path(rf"^/v2\.0/quotas{END}", quotas.Quotas.as_view()),
        re_path(rf"^/v2\.0/quotas/tenant{END}", quotas.QuotaTenant.as_view()),
        re_path(rf"^/v2\.0/quotas/project{END}", quotas.QuotaTenant.as_view()),
        re_path(rf"^/v2\.0/quotas/(?P<project_id>[^/]+?)/default{END}", quotas.QuotaDefaults.as_view()),
        re_path(rf"^/v2\.0/quotas/(?P<project_id>[^/]+?)/details{END}", quotas.QuotaUsage.as_view()),
        re_path(rf"^/v2\.0/quotas/(?P<project_id>[^/]+?){END}", quotas.QuotaDetail.as_view()),
        re_path(r"", NoSuchResource.of("network")),
    ]
)
