"""URLs of usage reports and of the log of usage audits, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.usage import audit_log, views
from portal.api.frame.parts import urls

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-simple-tenant-usage", views.UsagesView.as_view()),
    path("/v2.1/os-simple-tenant-usage/<str:project_id>", views.UsageView.as_view()),
    *urls("/v2.1/", audit_log.PARTS),
]
