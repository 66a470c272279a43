"""Actions on a user: enable, disable, sign out, unlock, set a password, delete."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.dashboard.forms import Form
from portal.dashboard.identity.base import UserPage
from portal.dashboard.identity.forms import PasswordForm
from portal.dashboard.names import bdi
from portal.dashboard.pages import FormPage
from provisioning.identity.lockout import lift_lockout
from provisioning.identity.models import User
from provisioning.identity.selectors.application_credentials import existing_application_credential
from provisioning.identity.services.application_credentials import delete_application_credential
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.users import delete_user, revoke_all, set_user_enabled


@dataclass(frozen=True, slots=True)
class UserAction:
    """An action on a user after confirmation; ``message`` and ``question`` contain the user's name as ``{name}``."""

    name: str
    rule: str
    question: str
    text: str
    label: str
    message: str
    do: Callable[[User], Any]
    danger: bool = True


USER_ACTIONS = {
    each.name: each
    for each in (
        UserAction(
            "disable",
            "identity:update_user",
            "Disable {name}?",
            "The user is signed out everywhere immediately and cannot sign in until enabled again. Roles are kept.",
            "Disable",
            "{name} was disabled.",
            lambda user: set_user_enabled(user, enabled=False),
        ),
        UserAction(
            "enable",
            "identity:update_user",
            "Enable {name}?",
            "The user can sign in again, with the same password and roles as before.",
            "Enable",
            "{name} was enabled.",
            lambda user: set_user_enabled(user, enabled=True),
            danger=False,
        ),
        UserAction(
            "sign-out",
            "identity:update_user",
            "Sign {name} out everywhere?",
            "All sessions and tokens of the user are revoked. The user can sign in again.",
            "Sign out everywhere",
            "{name} is signed out everywhere.",
            revoke_all,
        ),
        UserAction(
            "unlock",
            "identity:update_user",
            "Remove the lockout of {name}?",
            "The count of failed sign-ins is reset, so the user can sign in without waiting.",
            "Remove lockout",
            "The lockout of {name} was removed.",
            lift_lockout,
            danger=False,
        ),
        UserAction(
            "delete",
            "identity:delete_user",
            "Delete {name}?",
            "The user is signed out everywhere and loses all roles, key pairs and credentials. Resources of the"
            " user's projects are kept. This cannot be undone.",
            "Delete",
            "{name} was deleted.",
            delete_user,
        ),
    )
}


class UserActionPage(UserPage):
    """Asks for confirmation, and runs an action on a user."""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Look up the action. The page is checked by the action's policy rule."""
        super().setup(request, *args, **kwargs)
        action = USER_ACTIONS.get(str(kwargs["action"]))
        if action is None:
            raise Http404
        self.action, self.rule = action, action.rule

    def get(self, request: HttpRequest, user_id: uuid.UUID, action: str) -> HttpResponse:
        user = self.record
        text = self.action.text
        if user.id == self.context.user_id and self.action.danger:
            text = f"This is you. {text}"
        return self.ask_first(
            self.action.question.format(name=bdi(user.name)), text, self.action.label, danger=self.action.danger
        )

    def post(self, request: HttpRequest, user_id: uuid.UUID, action: str) -> HttpResponse:
        user = self.record
        self.action.do(user)
        to = "dashboard:users" if self.action.name == "delete" else self.back()
        return self.go(to, message=self.action.message.format(name=bdi(user.name)))


@method_decorator([never_cache, sensitive_post_parameters("password")], name="dispatch")
class UserPassword(FormPage, UserPage):
    """The form for a new password of a user."""

    rule = "identity:update_user"
    template = "dashboard/identity/password_form.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return PasswordForm(data)

    def save(self, form: Form) -> HttpResponse:
        """Set the password; a generated one is shown only in this response."""
        user, password = self.record, form.cleaned_data["password"]
        set_password(user, password, by_admin=True)
        if form.cleaned_data["how"] == "type":
            return self.go(self.back(), message=f"{bdi(user.name)} has a new password and is signed out everywhere.")
        shown = {"person": user, "password": password, "is_new": False}
        return self.page("dashboard/identity/password_once.html", shown, status=201)

    def extra_context(self) -> Mapping[str, Any]:
        return {"person": self.record}


class CredentialDelete(UserPage):
    """Asks for confirmation, and deletes an application credential of a user."""

    rule = "identity:delete_application_credential"

    def get(self, request: HttpRequest, user_id: uuid.UUID, application_credential_id: uuid.UUID) -> HttpResponse:
        user = self.record
        credential = existing_application_credential(user, str(application_credential_id))
        return self.ask_first(
            f"Delete {bdi(credential.name)} of {bdi(user.name)}?",
            "Programs that sign in with it are refused at their next request. This cannot be undone.",
        )

    def post(self, request: HttpRequest, user_id: uuid.UUID, application_credential_id: uuid.UUID) -> HttpResponse:
        credential = existing_application_credential(self.record, str(application_credential_id))
        delete_application_credential(credential, caller=self.context)
        return self.go(self.back(), message=f"{bdi(credential.name)} was deleted.")
