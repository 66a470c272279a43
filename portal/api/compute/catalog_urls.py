"""Addresses of flavors, key pairs, quotas and usage, below ``/compute/v2.1``."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.compute import flavor_parts, flavors, keypairs, limits, quota_sets, usage, usage_audit

_FLAVOR = "/v2.1/flavors/<str:flavor_id>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/flavors", flavors.FlavorsView.as_view()),
    path("/v2.1/flavors/detail", flavors.FlavorsDetailView.as_view()),
    path(_FLAVOR, flavors.FlavorView.as_view()),
    path(f"{_FLAVOR}/action", flavor_parts.FlavorActionView.as_view()),
    path(f"{_FLAVOR}/os-extra_specs", flavor_parts.ExtraSpecsView.as_view()),
    path(f"{_FLAVOR}/os-extra_specs/<str:key>", flavor_parts.ExtraSpecView.as_view()),
    path(f"{_FLAVOR}/os-flavor-access", flavor_parts.FlavorAccessView.as_view()),
    path("/v2.1/os-keypairs", keypairs.KeyPairsView.as_view()),
    path("/v2.1/os-keypairs/<str:name>", keypairs.KeyPairView.as_view()),
    path("/v2.1/limits", limits.LimitsView.as_view()),
    path("/v2.1/os-quota-sets/<str:project_id>", quota_sets.QuotaSetView.as_view()),
    path("/v2.1/os-quota-sets/<str:project_id>/defaults", quota_sets.QuotaSetDefaultsView.as_view()),
    path("/v2.1/os-quota-sets/<str:project_id>/detail", quota_sets.QuotaSetDetailView.as_view()),
    path("/v2.1/os-quota-class-sets/<str:class_name>", quota_sets.QuotaClassSetView.as_view()),
    path("/v2.1/os-simple-tenant-usage", usage.UsagesView.as_view()),
    path("/v2.1/os-simple-tenant-usage/<str:project_id>", usage.UsageView.as_view()),
    path("/v2.1/os-instance_usage_audit_log", usage_audit.UsageAuditsView.as_view()),
    path("/v2.1/os-instance_usage_audit_log/<str:before>", usage_audit.UsageAuditView.as_view()),
]
