"""URLs of limits and quotas, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.quotas import limits, views

urlpatterns: list[URLPattern] = [
    path("/v2.1/limits", limits.LimitsView.as_view()),
    path("/v2.1/os-quota-sets/<str:project_id>", views.QuotaSetView.as_view()),
    path("/v2.1/os-quota-sets/<str:project_id>/defaults", views.QuotaSetDefaultsView.as_view()),
    path("/v2.1/os-quota-sets/<str:project_id>/detail", views.QuotaSetDetailView.as_view()),
    path("/v2.1/os-quota-class-sets/<str:class_name>", views.QuotaClassSetView.as_view()),
]
