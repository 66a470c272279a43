"""The operators' admin site."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin
from django.core.exceptions import BadRequest, FieldDoesNotExist, ValidationError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import slugify

from portal.ops.shown import IN_DASHBOARD, SHOWN, TASKS
from provisioning.identity import policy


class NovellaAdminSite(admin.AdminSite):
    """Django's admin with Novella's texts, for operators as defined by the policy."""

    site_header = "Novella operators"
    site_title = "Novella"
    index_title = "Records of the cloud"
    site_url = "/"
    enable_nav_sidebar = True

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether the session's user is an operator in its project, by the policy."""
        context = getattr(request, "context", None)
        return context is not None and policy.allows(context, "novella:admin")

    def admin_view(self, view: Callable[..., HttpResponseBase], cacheable: bool = False) -> Any:  # noqa: FBT001, FBT002 - Django's
        """Return Django's view; malformed ids, which Django's pages do not validate, are answered with 400."""
        view_with_checks = super().admin_view(view, cacheable)

        @functools.wraps(view_with_checks)
        def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            _check_address(request)
            try:
                response = view_with_checks(request, *args, **kwargs)
                return response.render() if isinstance(response, TemplateResponse) else response
            except (ValidationError, FieldDoesNotExist) as error:
                raise BadRequest("The address contains an invalid value.") from error

        return answered

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """List all models, or the models of an app, grouped by task. A model that has a list in the dashboard links to
        that list.
        """
        apps: list[Any] = super().get_app_list(request, app_label)
        for each in (model for app in apps for model in app["models"]):
            each["model_label"] = each["model"]._meta.label_lower
            pages = IN_DASHBOARD.get(each["model"]._meta.label)
            if pages:
                each["admin_url"] = reverse(f"dashboard:{pages[0]}")
                adds = self._registry[each["model"]].may(request, "add")  # type: ignore[attr-defined] # all are Ruled
                each["add_url"] = reverse(f"dashboard:{pages[1]}") if adds else None
        if app_label is not None:
            return apps
        by_label = {each["model"]._meta.label: each for app in apps for each in app["models"]}
        return [
            {"name": task, "app_label": slugify(task), "app_url": "", "has_module_perms": True, "models": models}
            for task, labels in TASKS.items()
            if (models := [by_label[label] for label in labels if label in by_label])
        ]

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:  # type: ignore[override]
        """Redirect to the dashboard's page, which sets a password through the service."""
        return redirect("dashboard:settings_password")

    def register(
        self, model_or_iterable: type[Model] | Iterable[type[Model]], admin_class: Any = None, **options: Any
    ) -> None:
        """Register only Novella's own models."""
        models = [model_or_iterable] if isinstance(model_or_iterable, type) else list(model_or_iterable)
        own = [model for model in models if model._meta.app_label in SHOWN]
        if own:
            super().register(own, admin_class, **options)


def _check_address(request: HttpRequest) -> None:
    """Raise BadRequest for NUL characters, and for look-ups by another column than the id."""
    requested = [value for _, values in request.GET.lists() for value in values]
    if any("\0" in text for text in (request.path, *requested)) or request.GET.get("_to_field", "id") != "id":
        raise BadRequest("The address contains an invalid value.")
