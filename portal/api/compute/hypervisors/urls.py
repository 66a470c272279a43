"""URLs of hypervisors, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.hypervisors import views

_HYPERVISORS = "/v2.1/os-hypervisors"

urlpatterns: list[URLPattern] = [
    path(_HYPERVISORS, views.HypervisorsView.as_view()),
    path(f"{_HYPERVISORS}/detail", views.HypervisorsDetailView.as_view()),
    path(f"{_HYPERVISORS}/statistics", views.HypervisorStatisticsView.as_view()),
    path(f"{_HYPERVISORS}/<str:hypervisor_id>", views.HypervisorView.as_view()),
    path(f"{_HYPERVISORS}/<str:hypervisor_id>/uptime", views.HypervisorUptimeView.as_view()),
    path(f"{_HYPERVISORS}/<str:pattern>/search", views.HypervisorSearchView.as_view()),
    path(f"{_HYPERVISORS}/<str:pattern>/servers", views.HypervisorServersView.as_view()),
]
