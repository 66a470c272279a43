"""Projects, users and their roles."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_post_parameters

from portal.ops.admin.base import ModelForm, Readable, TabularInline, Written, confirmed, each
from provisioning.common.errors import NovellaError
from provisioning.compute.selectors import Limits
from provisioning.identity import services
from provisioning.identity.models import Domain, Project, Role, RoleAssignment, User
from provisioning.quotas import selectors as quotas

DEFAULT_DOMAIN = "default"
SHORTEST_PASSWORD = 8
"""Characters of a password that an operator gives."""


@admin.register(Domain)
class DomainAdmin(Readable):
    """The domains."""

    list_display = ("name", "id", "enabled")


@admin.register(Role)
class RoleAdmin(Readable):
    """The roles, which the policy gives their meaning."""

    list_display = ("name", "description")


class RoleInline(TabularInline):
    """Who has which role where: given and taken, not changed."""

    model = RoleAssignment
    extra = 0
    verbose_name = "role"
    verbose_name_plural = "roles"

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False


class WithRoles(Written):
    """A page with roles below; they are written through the services."""

    inlines = (RoleInline,)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """A new one belongs to the first domain unless the operator chooses another."""
        return {"domain": DEFAULT_DOMAIN, **super().get_changeform_initial_data(request)}

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Give and take roles."""
        formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        for row in formset.deleted_forms:
            given = row.instance
            if given.pk:
                services.remove_role(given.user, given.project, given.role.name)
                formset.deleted_objects.append(given)
        for row in formset.extra_forms:
            if row.has_changed() and row not in formset.deleted_forms:
                given = row.save(commit=False)
                services.assign_role(given.user, given.project, given.role.name)


@admin.register(Project)
class ProjectAdmin(WithRoles):
    """The projects."""

    list_display = ("name", "domain", "enabled", "usage", "created_at")
    list_filter = ("enabled", "domain")
    search_fields = ("name", "id__startswith")
    fields = ("domain", "name", "description", "enabled", "usage")
    readonly_fields = ("usage",)
    actions = ("enable", "disable")

    def get_readonly_fields(self, request: HttpRequest, obj: Project | None = None) -> tuple[str, ...]:
        """A project's name is what clients have in their configuration: it stays."""
        return ("domain", "name", "usage") if obj else ("usage",)

    def has_delete_permission(self, request: HttpRequest, obj: Project | None = None) -> bool:
        """A project is disabled; deleting one would orphan what it owns."""
        return False

    @admin.display(description="instances · vCPUs · memory (used of limit)")
    def usage(self, project: Project) -> str:
        """Write what it holds."""
        if project._state.adding:
            return "-"
        limits = Limits(quotas.limits_of(project.id), quotas.usage_of(project.id))
        parts = (
            (name, limits.usage.get(name, 0), limits.limits.get(name, -1)) for name in ("instances", "cores", "ram")
        )
        return " · ".join(
            f"{used} of {'∞' if limit < 0 else limit}" + " MiB" * (name == "ram") for name, used, limit in parts
        )

    def save_model(self, request: HttpRequest, obj: Project, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write through the services."""
        if not change:
            made = services.ensure_project(obj.domain, obj.name, description=obj.description)
            obj.pk = obj.id = made.id
            obj._state.adding = False
            return
        if "description" in form.changed_data:
            services.describe_project(Project.objects.get(id=obj.id), obj.description)
        if "enabled" in form.changed_data:
            services.set_project_enabled(Project.objects.get(id=obj.id), enabled=obj.enabled)

    @admin.action(description="Enable")
    def enable(self, request: HttpRequest, queryset: QuerySet[Project]) -> None:
        """Open them."""
        each(request, queryset, lambda _, row: services.set_project_enabled(row, enabled=True), "Projects enabled")

    @admin.action(description="Disable: nobody can work in them")
    def disable(self, request: HttpRequest, queryset: QuerySet[Project]) -> HttpResponse | None:
        """Close them, after a question."""
        question = confirmed(self, request, queryset, "disable", "Close these projects for everybody?")
        if question is None:
            each(
                request, queryset, lambda _, row: services.set_project_enabled(row, enabled=False), "Projects disabled"
            )
        return question


class NewUserForm(ModelForm):
    """A new user, with a first password."""

    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        min_length=SHORTEST_PASSWORD,
        max_length=1024,
    )

    class Meta:
        model = User
        fields = ("domain", "name", "email", "default_project")


class PasswordForm(forms.Form):
    """A new password, typed twice."""

    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        min_length=SHORTEST_PASSWORD,
        max_length=1024,
    )
    again = forms.CharField(widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}), max_length=1024)

    def clean(self) -> dict[str, Any]:
        """Compare the two."""
        data = super().clean() or {}
        if data.get("password") != data.get("again"):
            self.add_error("again", "The two passwords are not the same.")
        return data


@admin.register(User)
class UserAdmin(WithRoles):
    """The users."""

    list_display = ("name", "domain", "email", "enabled", "default_project", "created_at")
    list_filter = ("enabled", "domain")
    search_fields = ("name", "email", "id__startswith")
    list_select_related = ("domain", "default_project")
    actions = ("enable", "disable", "sign_out")

    def get_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """A new user has a first password; later a page of its own sets one."""
        if obj is None:
            return ("domain", "name", "password", "email", "default_project")
        return ("domain", "name", "password_link", "email", "description", "default_project", "enabled", "created_at")

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """A name is what people sign in with: it stays."""
        return ("domain", "name", "password_link", "created_at") if obj else ()

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's
        """Use the form with a password for a new one."""
        if obj is None:
            kwargs["form"] = NewUserForm
        return super().get_form(request, obj, change, **kwargs)

    @admin.display(description="password")
    def password_link(self, user: User) -> SafeString:
        """Lead to the page that sets it."""
        return format_html(
            '<a class="button" href="{}">Set a new password</a>',
            reverse("admin:identity_user_password", args=[user.pk]),
        )

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write through the services."""
        if not change:
            made = services.ensure_user(
                obj.domain,
                obj.name,
                password=form.cleaned_data["password"],
                email=obj.email,
                default_project=obj.default_project,
            )
            obj.pk = obj.id = made.id
            obj._state.adding = False
            return
        if {"email", "description", "default_project"} & set(form.changed_data):
            services.update_user(
                User.objects.get(id=obj.id),
                email=obj.email,
                description=obj.description,
                default_project=obj.default_project,
            )
        if "enabled" in form.changed_data:
            services.set_user_enabled(User.objects.get(id=obj.id), enabled=obj.enabled)

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        """Remove the user; what the user made stays with the projects."""
        services.delete_user(obj)

    @admin.action(description="Enable")
    def enable(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Let them in."""
        each(request, queryset, lambda _, row: services.set_user_enabled(row, enabled=True), "Users enabled")

    @admin.action(description="Disable: lock out at once")
    def disable(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        """Lock them out, after a question."""
        question = confirmed(self, request, queryset, "disable", "Lock these users out?")
        if question is None:
            each(request, queryset, lambda _, row: services.set_user_enabled(row, enabled=False), "Users disabled")
        return question

    @admin.action(description="Sign out everywhere: void all tokens")
    def sign_out(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """End every session and token of theirs."""
        each(request, queryset, lambda _, row: services.revoke_all(row), "Users signed out")

    def get_urls(self) -> list[URLPattern]:
        """Add the page that sets a password."""
        view = self.admin_site.admin_view(sensitive_post_parameters()(self.password))
        return [path("<uuid:user_id>/password/", view, name="identity_user_password"), *super().get_urls()]

    def password(self, request: HttpRequest, user_id: Any) -> HttpResponse:
        """Set a password; every session and token of the user ends."""
        user = get_object_or_404(User, id=user_id)
        form = PasswordForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                services.set_password(user, form.cleaned_data["password"])
            except NovellaError as error:
                form.add_error("password", error.message)
            else:
                messages.success(request, f"{user.name} has a new password, and has to sign in again everywhere.")
                return HttpResponseRedirect(reverse("admin:identity_user_change", args=[user.pk]))
        context = {
            **self.admin_site.each_context(request),
            "title": f"Set the password of {user.name}",
            "opts": self.model._meta,
            "original": user,
            "form": form,
        }
        return TemplateResponse(request, "admin/novella/password.html", context)
