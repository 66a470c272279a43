"""URLs of the operations that explain scheduling, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.scheduling import views

urlpatterns: list[URLPattern] = [
    path("/v2.1/servers/<str:server_id>/novella-scheduling", views.SchedulingView.as_view()),
    path("/v2.1/novella-would-fit", views.WouldFitView.as_view()),
]
