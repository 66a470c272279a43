"""URLs of measures, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.measures import views

urlpatterns: list[URLPattern] = [
    path("/v2.1/servers/<str:server_id>/novella-measures", views.ServerMeasuresView.as_view()),
    path("/v2.1/os-hypervisors/<str:hypervisor_id>/novella-measures", views.HypervisorMeasuresView.as_view()),
    path("/v2.1/novella-measures", views.ProjectMeasuresView.as_view()),
    path("/v2.1/novella-measures/cloud", views.CloudMeasuresView.as_view()),
    path("/v2.1/novella-measures/pools/<str:pool_id>", views.PoolMeasuresView.as_view()),
]
