"""URLs of usage reports and of the log of usage audits, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.usage import audit_log, views

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-simple-tenant-usage", views.UsagesView.as_view()),
    path("/v2.1/os-simple-tenant-usage/<str:project_id>", views.UsageView.as_view()),
    path("/v2.1/os-instance_usage_audit_log", audit_log.UsageAuditsView.as_view()),
    path("/v2.1/os-instance_usage_audit_log/<str:before>", audit_log.UsageAuditView.as_view()),
]
