"""URLs of host aggregates and availability zones, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.aggregates import availability_zones, views

_AGGREGATE = "/v2.1/os-aggregates/<str:aggregate_id>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-availability-zone", availability_zones.ZonesView.as_view()),
    path("/v2.1/os-availability-zone/detail", availability_zones.ZonesDetailView.as_view()),
    path("/v2.1/os-aggregates", views.AggregatesView.as_view()),
    path(_AGGREGATE, views.AggregateView.as_view()),
    path(f"{_AGGREGATE}/action", views.AggregateActionView.as_view()),
    path(f"{_AGGREGATE}/images", views.AggregateImagesView.as_view()),
]
