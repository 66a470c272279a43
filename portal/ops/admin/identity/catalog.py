"""The catalog: regions, services and endpoints."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from portal.ops.admin.base import TabularInline, Written, identity_rules
from provisioning.identity.models import Endpoint, Region, Service
from provisioning.identity.services.catalog import (
    create_endpoint,
    create_region,
    create_service,
    delete_endpoint,
    delete_region,
    delete_service,
    update_endpoint,
    update_region,
    update_service,
)


@admin.register(Region)
class RegionAdmin(Written):
    list_display = fields = ("id", "parent", "description")
    fixed = ("id",)
    rules = identity_rules("region")
    update = staticmethod(update_region)
    remove = staticmethod(delete_region)

    def create(self, data: dict[str, Any]) -> Region:
        return create_region(data["id"], description=data["description"], parent=data["parent"])


class EndpointPart(TabularInline):
    """A service's endpoints, read-only."""

    model = Endpoint
    extra = 0
    fields = ("interface", "region", "url", "enabled")
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True


@admin.register(Service)
class ServiceAdmin(Written):
    list_display = ("type", "name", "enabled", "description")
    search_fields = ("type", "name")
    fields = ("type", "name", "description", "enabled")
    inlines = (EndpointPart,)
    rules = identity_rules("service")
    update = staticmethod(update_service)
    remove = staticmethod(delete_service)

    def create(self, data: dict[str, Any]) -> Service:
        return create_service(data["type"], name=data["name"], description=data["description"], enabled=data["enabled"])


@admin.register(Endpoint)
class EndpointAdmin(Written):
    list_display = ("service", "interface", "region", "url", "enabled")
    list_filter = ("interface", "region", "enabled")
    list_select_related = ("service", "region")
    fields = ("service", "interface", "region", "url", "enabled")
    rules = identity_rules("endpoint")
    update = staticmethod(update_endpoint)
    remove = staticmethod(delete_endpoint)

    def create(self, data: dict[str, Any]) -> Endpoint:
        return create_endpoint(
            data["service"], data["interface"], data["url"], region=data["region"], enabled=data["enabled"]
        )
