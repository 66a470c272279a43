"""The admin pages of flavors."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from portal.ops.admin.base import Written, context_of
from provisioning.compute.models import Flavor
from provisioning.compute.services.flavors import FlavorRequest, create_flavor, delete_flavor, update_flavor

SIZE = ("name", "flavorid", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb", "rxtx_factor")


@admin.register(Flavor)
class FlavorAdmin(Written):
    """The flavors. Operators create and delete them; vCPUs, memory and disk of an existing flavor cannot be changed."""

    list_display = ("name", "flavorid", "vcpus", "memory_mb", "root_gb", "is_public", "disabled")
    list_filter = ("is_public", "disabled")
    search_fields = ("name", "flavorid")
    ordering = ("memory_mb", "vcpus")
    new_fields = (*SIZE, "description", "is_public")
    fields = (*new_fields, "disabled")
    fixed = SIZE
    rules = {
        "view": "novella:flavors:index:all",
        "add": "os_compute_api:os-flavor-manage:create",
        "change": "os_compute_api:os-flavor-manage:update",
        "delete": "os_compute_api:os-flavor-manage:delete",
    }

    def save_model(self, request: HttpRequest, obj: Flavor, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        context, data = context_of(request), form.cleaned_data
        if change:
            update_flavor(
                context,
                obj.flavorid,
                description=data["description"],
                is_public=data["is_public"],
                disabled=data["disabled"],
            )
            return
        numbers = {name: data[name] for name in SIZE if name not in {"name", "flavorid"}}
        made = create_flavor(
            context,
            FlavorRequest(
                name=data["name"],
                flavorid=data["flavorid"],
                description=data["description"],
                is_public=data["is_public"],
                **numbers,
            ),
        )
        obj.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: Flavor) -> None:
        """Delete the flavor; instances keep their copy."""
        delete_flavor(context_of(request), obj.flavorid)
