"""Domains."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

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
    rules = {
        "view": "identity:list_domains",
        "add": "identity:create_domain",
        "change": "identity:update_domain",
        "delete": "identity:delete_domain",
    }

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.pk if obj else None}

    def save_model(self, request: HttpRequest, obj: Domain, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write through the services."""
        values = {name: form.cleaned_data[name] for name in form.changed_data}
        if change:
            update_domain(Domain.objects.get(id=obj.id), **values)
            return
        made = create_domain(obj.name, description=obj.description, enabled=obj.enabled)
        obj.pk = obj.id = made.id
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: Domain) -> None:
        """Remove a closed domain with its people, groups and empty projects."""
        delete_domain(obj)
