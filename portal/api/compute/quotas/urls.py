"""URLs of limits and quotas, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.quotas import limits, views
from portal.api.frame.parts import urls

urlpatterns: list[URLPattern] = [
    path("/v2.1/limits", limits.LimitsView.as_view()),
    *urls("/v2.1/", views.PARTS),
]
