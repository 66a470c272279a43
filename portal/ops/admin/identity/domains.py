"""Domains."""

from typing import Any

from django.contrib import admin
from django.db.models import Model

from portal.ops.admin.base import identity_rules
from portal.ops.admin.identity.parts import RolesOnDomain, WithParts
from provisioning.identity.models import Domain
from provisioning.identity.services.domains import create_domain, delete_domain, update_domain


@admin.register(Domain)
class DomainAdmin(WithParts):
    """The domains."""

    list_display = ("name", "id", "enabled", "description")
    ordering = ("name",)
    list_filter = ("enabled",)
    search_fields = ("name", "id")
    fields = ("name", "description", "enabled")
    inlines = (RolesOnDomain,)
    rules = identity_rules("domain")
    update = staticmethod(update_domain)
    remove = staticmethod(delete_domain)

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.pk if obj else None}

    def create(self, data: dict[str, Any]) -> Domain:
        return create_domain(data["name"], description=data["description"], enabled=data["enabled"])
