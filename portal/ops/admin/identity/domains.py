"""Domains."""

from django.contrib import admin
from django.db.models import Model

from portal.ops.admin.base import InDashboard, identity_rules
from provisioning.identity.models import Domain


@admin.register(Domain)
class DomainAdmin(InDashboard):
    list_display = ("name", "id", "enabled", "description")
    ordering = ("name",)
    list_filter = ("enabled",)
    search_fields = ("name", "id")
    fields = ("name", "description", "enabled")
    rules = identity_rules("domain")

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.pk if obj else None}
