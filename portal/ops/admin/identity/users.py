"""Users: accounts, passwords, sessions and locks."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_post_parameters

from portal.ops.admin.base import ModelForm, identity_rules, row_action
from portal.ops.admin.identity.parts import RolesOfSomebody, WithParts
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.identity.lockout import lift_lockout, lockout_of
from provisioning.identity.models import User
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.users import create_user, delete_user, revoke_all, set_user_enabled, update_user


class NewUserForm(ModelForm):
    """A new user, with a first password."""

    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        max_length=1024,
    )

    class Meta:
        model = User
        fields = ("domain", "name", "email", "description", "default_project", "enabled")


class PasswordForm(forms.Form):
    """A new password and its confirmation."""

    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        max_length=1024,
    )
    again = forms.CharField(widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}), max_length=1024)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("password") != data.get("again"):
            self.add_error("again", "The two passwords are not the same.")
        return data


@admin.register(User)
class UserAdmin(WithParts):
    """The users."""

    list_display = ("name", "domain", "email", "enabled", "locked", "default_project", "created_at")
    ordering = ("name", "domain")
    list_filter = ("enabled", "domain")
    search_fields = ("name", "email", "id__startswith")
    list_select_related = ("domain", "default_project")
    actions = ("enable", "disable", "sign_out", "unlock")
    autocomplete_fields = ("default_project",)
    inlines = (RolesOfSomebody,)
    new_fields = ("domain", "name", "password", "email", "description", "default_project", "enabled")
    fields = (
        "domain", "name", "password_link", "password_expires_at", "email", "description", "default_project",
        "enabled", "created_at",
    )  # fmt: skip
    fixed = ("domain", "password_link", "password_expires_at", "created_at")
    rules = identity_rules("user") | dict.fromkeys(actions, "identity:update_user")
    update = staticmethod(update_user)
    remove = staticmethod(delete_user)

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.domain_id, "user_id": obj.id} if isinstance(obj, User) else {}

    @admin.display(description="locked out", empty_value="")
    def locked(self, user: User) -> str | None:
        """Return whether the account is locked after too many wrong passwords."""
        return "after wrong passwords" if lockout_of(user) is not None else None

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's
        """Use the form with a password for a new user."""
        if obj is None:
            kwargs["form"] = NewUserForm
        return super().get_form(request, obj, change, **kwargs)

    @admin.display(description="password")
    def password_link(self, user: User) -> SafeString:
        """Return a link to the page that sets the password."""
        return format_html(
            '<a class="button" href="{}">Set a new password</a>',
            reverse("admin:identity_user_password", args=[user.pk]),
        )

    def create(self, data: dict[str, Any]) -> User:
        return create_user(**data)

    @row_action("Enable", "Users enabled", permissions=["change"])
    def enable(self, context: RequestContext, user: User) -> None:
        set_user_enabled(user, enabled=True)

    @row_action("Disable and sign out", "Users disabled", question="Lock these users out?", permissions=["change"])
    def disable(self, context: RequestContext, user: User) -> None:
        set_user_enabled(user, enabled=False)

    @row_action("Sign out everywhere: void all tokens", "Users signed out", permissions=["change"])
    def sign_out(self, context: RequestContext, user: User) -> None:
        revoke_all(user)

    @row_action("Lift the lock after wrong passwords", "Locks lifted", permissions=["change"])
    def unlock(self, context: RequestContext, user: User) -> None:
        lift_lockout(user)

    def get_urls(self) -> list[URLPattern]:
        """Add the URL of the page that sets a password."""
        view = self.admin_site.admin_view(sensitive_post_parameters()(self.password))
        return [path("<uuid:user_id>/password/", view, name="identity_user_password"), *super().get_urls()]

    def password(self, request: HttpRequest, user_id: Any) -> HttpResponse:
        """Set a password; all sessions and tokens of the user are revoked."""
        user = get_object_or_404(User, id=user_id)
        if not self.may(request, "change", user):
            raise PermissionDenied
        form = PasswordForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                set_password(user, form.cleaned_data["password"], by_admin=user.pk != request.user.pk)
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
