"""The catalog: regions, services and endpoints."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest

from portal.ops.admin.base import TabularInline, Written
from provisioning.identity.models import Endpoint, Region, Service
from provisioning.identity.services import catalog as services
from provisioning.identity.services.catalog import create_endpoint, create_region, create_service


class Record(Written):
    """A record of the catalog: ``kind`` is the word in the names of its services."""

    kind: ClassVar[str]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write through the services."""
        data = form.cleaned_data
        if change:
            values = {name: data[name] for name in form.changed_data}
            getattr(services, f"update_{self.kind}")(type(obj).objects.get(pk=obj.pk), **values)
            return
        made = self.create(data)
        obj.pk = obj.id = made.pk
        obj._state.adding = False

    def create(self, data: dict[str, Any]) -> Any:
        """Make one of what was typed."""
        raise NotImplementedError

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Remove it through the service."""
        getattr(services, f"delete_{self.kind}")(obj)


def _rules(kind: str) -> dict[str, str]:
    words = {"add": "create", "change": "update", "delete": "delete"}
    rules = {permission: f"identity:{word}_{kind}" for permission, word in words.items()}
    return {"view": f"identity:list_{kind}s"} | rules


@admin.register(Region)
class RegionAdmin(Record):
    """The regions."""

    kind = "region"
    list_display = ("id", "parent", "description")
    rules = _rules("region")

    def get_fields(self, request: HttpRequest, obj: Region | None = None) -> tuple[str, ...]:
        """The id is its name."""
        return ("id", "parent", "description")

    def get_readonly_fields(self, request: HttpRequest, obj: Region | None = None) -> tuple[str, ...]:
        return ("id",) if obj else ()

    def create(self, data: dict[str, Any]) -> Region:
        return create_region(data["id"], description=data["description"], parent=data["parent"])


class EndpointPart(TabularInline):
    """A service's endpoints, to read here."""

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
class ServiceAdmin(Record):
    """The services."""

    kind = "service"
    list_display = ("type", "name", "enabled", "description")
    search_fields = ("type", "name")
    fields = ("type", "name", "description", "enabled")
    inlines = (EndpointPart,)
    rules = _rules("service")

    def create(self, data: dict[str, Any]) -> Service:
        return create_service(data["type"], name=data["name"], description=data["description"], enabled=data["enabled"])


@admin.register(Endpoint)
class EndpointAdmin(Record):
    """The endpoints."""

    kind = "endpoint"
    list_display = ("service", "interface", "region", "url", "enabled")
    list_filter = ("interface", "region", "enabled")
    list_select_related = ("service", "region")
    fields = ("service", "interface", "region", "url", "enabled")
    rules = _rules("endpoint")

    def create(self, data: dict[str, Any]) -> Endpoint:
        return create_endpoint(
            data["service"], data["interface"], data["url"], region=data["region"], enabled=data["enabled"]
        )
