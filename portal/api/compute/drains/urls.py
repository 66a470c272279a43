"""URLs of drains, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.drains import views

urlpatterns: list[URLPattern] = [
    path("/v2.1/novella-drains", views.DrainsView.as_view()),
    path("/v2.1/novella-drains/plan", views.PlanView.as_view()),
    path("/v2.1/novella-drains/<str:drain_id>", views.DrainView.as_view()),
    path("/v2.1/novella-drains/<str:drain_id>/action", views.DrainActionView.as_view()),
]
