"""Groups."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest

from portal.ops.admin.identity.parts import MemberPart, RolesOfSomebody, WithParts
from provisioning.identity.models import Group
from provisioning.identity.services.groups import create_group, delete_group, update_group


@admin.register(Group)
class GroupAdmin(WithParts):
    """The groups."""

    list_display = ("name", "domain", "members", "description")
    ordering = ("name", "domain")
    list_filter = ("domain",)
    list_select_related = ("domain",)
    search_fields = ("name", "id__startswith")
    fields = ("domain", "name", "description")
    inlines = (MemberPart, RolesOfSomebody)
    rules = {
        "view": "identity:list_groups",
        "add": "identity:create_group",
        "change": "identity:update_group",
        "delete": "identity:delete_group",
    }

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.domain_id} if isinstance(obj, Group) else {}

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> tuple[str, ...]:
        """Where a group is stays."""
        return ("domain",) if obj else ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        """Count the members with the list."""
        found: QuerySet[Group] = super().get_queryset(request)
        return found.annotate(_members=Count("users"))

    @admin.display(description="members", ordering="_members")
    def members(self, group: Any) -> int:
        return int(group._members)

    def save_model(self, request: HttpRequest, obj: Group, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write through the services."""
        if change:
            values = {name: form.cleaned_data[name] for name in form.changed_data}
            update_group(Group.objects.get(id=obj.id), **values)
            return
        made = create_group(obj.domain, obj.name, description=obj.description)
        obj.pk = obj.id = made.id
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: Group) -> None:
        """Remove the group; its members lose what it gave them at once."""
        delete_group(obj)
