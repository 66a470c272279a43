"""Groups."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest

from portal.ops.admin.base import identity_rules
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
    fixed = ("domain",)
    inlines = (MemberPart, RolesOfSomebody)
    rules = identity_rules("group")
    update = staticmethod(update_group)
    remove = staticmethod(delete_group)

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.domain_id} if isinstance(obj, Group) else {}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        found: QuerySet[Group] = super().get_queryset(request)
        return found.annotate(_members=Count("users"))

    @admin.display(description="members", ordering="_members")
    def members(self, group: Any) -> int:
        return int(group._members)

    def create(self, data: dict[str, Any]) -> Group:
        return create_group(data["domain"], data["name"], description=data["description"])
