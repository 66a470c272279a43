"""URLs of key pairs, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.keypairs import views

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-keypairs", views.KeyPairsView.as_view()),
    path("/v2.1/os-keypairs/<str:name>", views.KeyPairView.as_view()),
]
