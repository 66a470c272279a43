"""URLs of compute services, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.services import views

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-services", views.ServicesView.as_view()),
    path("/v2.1/os-services/<str:service_id>", views.ServiceView.as_view()),
]
