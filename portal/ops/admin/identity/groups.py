"""Groups."""

from django.contrib import admin
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest

from portal.ops.admin.base import InDashboard, identity_rules
from portal.ops.admin.columns import column
from provisioning.identity.models import Group


@admin.register(Group)
class GroupAdmin(InDashboard):
    list_display = ("name", "domain", "members", "description")
    ordering = ("name", "domain")
    list_filter = ("domain",)
    list_select_related = ("domain",)
    search_fields = ("name", "id__startswith")
    fields = ("domain", "name", "description")
    rules = identity_rules("group")

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.domain_id} if isinstance(obj, Group) else {}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        found: QuerySet[Group] = super().get_queryset(request)
        return found.annotate(_members=Count("users"))

    members = column("members", "_members", ordering="_members")
