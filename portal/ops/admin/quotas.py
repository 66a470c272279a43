"""Limits of one project, and default limits."""

import uuid
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from portal.ops.admin.base import ModelForm, Written
from portal.ops.admin.columns import by_id, column
from provisioning.identity.models import Project
from provisioning.identity.selectors.lookups import projects_by_id, users_by_id
from provisioning.quotas.limits import DEFAULTS, delivered
from provisioning.quotas.models import QuotaLimit
from provisioning.quotas.services.limits import set_limit


class QuotaLimitForm(ModelForm):
    """A limit; an existing one of the same project and resource is replaced."""

    project_id = forms.ModelChoiceField(
        Project.objects.order_by("name"), required=False, label="Project", empty_label="all projects (the default)"
    )
    resource = forms.ChoiceField(choices=[(name, name) for name in DEFAULTS])
    limit = forms.IntegerField(min_value=-1, help_text="-1: unlimited. Memory (ram) and image_size_total in MiB.")

    class Meta:
        model = QuotaLimit
        fields = ("project_id", "resource", "limit")

    def clean_project_id(self) -> uuid.UUID | None:
        """Return the id, as quotas store projects by id."""
        project: Project | None = self.cleaned_data["project_id"]
        return project.id if project else None

    def clean(self) -> dict[str, Any]:
        """Use the existing row of the same project and resource, if any."""
        data = super().clean() or {}
        if self.instance._state.adding and "project_id" in data:
            same = {"project_id": data["project_id"], "user_id": None, "resource": data.get("resource")}
            there = QuotaLimit.objects.filter(**same).first()
            if there is not None:
                self.instance.pk, self.instance._state.adding = there.pk, False
        return data


@admin.register(QuotaLimit)
class QuotaLimitAdmin(Written):
    """The limits that differ from Nova's defaults; limits of single users are set by the Compute API."""

    rules = {
        "view": "os_compute_api:os-quota-sets:show",
        "add": "os_compute_api:os-quota-sets:update",
        "change": "os_compute_api:os-quota-sets:update",
        "delete": "os_compute_api:os-quota-sets:delete",
    }
    form = QuotaLimitForm
    list_display = ("resource", "project", "user", "limit", "default")
    new_fields = ("project_id", "resource", "limit")
    fields = ("project", "user", "resource", "limit")
    fixed = ("project", "user", "resource")
    remove = staticmethod(lambda row: set_limit(row.project_id, row.resource, None, user_id=row.user_id))
    list_filter = ("resource",)

    project = column(
        "project",
        lambda _, found: found or "all projects (the default)",
        read=by_id(projects_by_id, "project_id"),
    )
    user = column("user", lambda _, found: found or "all of them", read=by_id(users_by_id, "user_id"))
    default = column("built-in default", lambda limit: delivered().get(limit.resource, -1))

    def save_model(self, request: HttpRequest, obj: QuotaLimit, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        whose: dict[str, Any] = {"project_id": obj.project_id, "user_id": obj.user_id, "resource": obj.resource}
        set_limit(**whose, limit=obj.limit)
        obj.pk = QuotaLimit.objects.get(**whose).pk
