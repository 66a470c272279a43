"""What the admin's pages share: they read records, and write through services only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NovellaError

if TYPE_CHECKING:  # generic to the type checker only
    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
    ModelForm = forms.ModelForm[Any]
else:
    ModelAdmin, TabularInline, ModelForm = admin.ModelAdmin, admin.TabularInline, forms.ModelForm


def context_of(request: HttpRequest) -> RequestContext:
    """Return who asks.  Raises ForbiddenError when nobody does; the site lets nobody in then."""
    context: RequestContext | None = getattr(request, "context", None)
    if context is None:
        raise ForbiddenError("Sign in first.")
    return context


class Readable(ModelAdmin):
    """Records to look at: nothing is added, changed or deleted here but by the actions a page offers."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class Written(ModelAdmin):
    """Records that operators change; each page says which service does it."""

    list_per_page = 50
    show_full_result_count = False
    actions: Sequence[Any] = ()

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Leave out Django's own deletion of many: it knows no services."""
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions


def each(request: HttpRequest, rows: QuerySet[Any], do: Callable[[RequestContext, Any], object], said: str) -> None:
    """Do something to each row; what is refused is said and keeps nothing else from being done."""
    context, done = context_of(request), 0
    for row in rows:
        try:
            do(context, row)
            done += 1
        except NovellaError as error:
            messages.error(request, f"{row}: {error.message}")
    if done:
        messages.success(request, f"{said}: {done}.")


def confirmed(
    page: ModelAdmin, request: HttpRequest, rows: QuerySet[Any], action: str, question: str
) -> HttpResponse | None:
    """Ask before an action; None when the operator has said yes."""
    if "confirmed" in request.POST:
        return None
    context = {
        **page.admin_site.each_context(request),
        "title": question,
        "opts": page.model._meta,
        "rows": rows,
        "action": action,
        "checkbox": ACTION_CHECKBOX_NAME,
    }
    return TemplateResponse(request, "admin/novella/confirm.html", context)
