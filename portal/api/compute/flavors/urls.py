"""URLs of flavors, their extra specs and their access lists, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.flavors import access, extra_specs, views

_FLAVOR = "/v2.1/flavors/<str:flavor_id>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/flavors", views.FlavorsView.as_view()),
    path("/v2.1/flavors/detail", views.FlavorsDetailView.as_view()),
    path(_FLAVOR, views.FlavorView.as_view()),
    path(f"{_FLAVOR}/action", access.FlavorActionView.as_view()),
    path(f"{_FLAVOR}/os-extra_specs", extra_specs.ExtraSpecsView.as_view()),
    path(f"{_FLAVOR}/os-extra_specs/<str:key>", extra_specs.ExtraSpecView.as_view()),
    path(f"{_FLAVOR}/os-flavor-access", access.FlavorAccessView.as_view()),
]
