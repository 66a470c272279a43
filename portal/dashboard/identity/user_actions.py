"""Actions on a user: enable, disable, sign out, unlock, set a password, delete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.dashboard.copy_as.calls import Call, Secret
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.identity.base import UserPage
from portal.dashboard.identity.forms import PasswordForm
from portal.dashboard.records.questions import Question, QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.identity.lockout.lockout import lift_lockout
from provisioning.identity.models import User
from provisioning.identity.selectors.credentials import existing_application_credential
from provisioning.identity.services.application_credentials import delete_application_credential
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.users import delete_user, revoke_all, set_user_enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAction(Question):
    """An action on a user after confirmation."""

    name: str
    do: Callable[[User], Any]
    rule: str = "identity:update_user"


USER_ACTIONS = {
    each.name: each
    for each in (
        UserAction(
            "Disable {name}?",
            "The user is signed out everywhere immediately and cannot sign in until enabled again. Roles are kept.",
            "Disable",
            "{name} was disabled.",
            name="disable",
            do=lambda user: set_user_enabled(user, enabled=False),
        ),
        UserAction(
            "Enable {name}?",
            "The user can sign in again, with the same password and roles as before.",
            "Enable",
            "{name} was enabled.",
            danger=False,
            name="enable",
            do=lambda user: set_user_enabled(user, enabled=True),
        ),
        UserAction(
            "Sign {name} out everywhere?",
            "All sessions and tokens of the user are revoked. The user can sign in again.",
            "Sign out everywhere",
            "{name} is signed out everywhere.",
            name="sign-out",
            do=revoke_all,
        ),
        UserAction(
            "Remove the lockout of {name}?",
            "The count of failed sign-ins is reset, so the user can sign in without waiting.",
            "Remove lockout",
            "The lockout of {name} was removed.",
            danger=False,
            name="unlock",
            do=lift_lockout,
        ),
        UserAction(
            "Delete {name}?",
            "The user is signed out everywhere and loses all roles, key pairs and credentials. Resources of the"
            " user's projects are kept. This cannot be undone.",
            "Delete",
            "{name} was deleted.",
            name="delete",
            do=delete_user,
            rule="identity:delete_user",
        ),
    )
}


class UserActionPage(QuestionPage, UserPage):
    """Asks for confirmation, and runs an action on a user."""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Look up the action. The page is checked by the action's policy rule."""
        super().setup(request, *args, **kwargs)
        action = USER_ACTIONS.get(str(kwargs["action"]))
        if action is None:
            raise Http404
        self.action, self.rule = action, action.rule

    def as_question(self) -> Question:
        return self.action

    def text(self) -> str:
        alone = self.record.id == self.context.user_id and self.action.danger
        return f"This is you. {self.action.text}" if alone else self.action.text

    def do(self) -> None:
        self.action.do(self.record)

    def success_url(self) -> str:
        return "dashboard:users" if self.action.name == "delete" else self.back()


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

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.USER_PASSWORD, {"user": self.record.id.hex, "password": Secret("password")})]

    def extra_context(self) -> Mapping[str, Any]:
        return {"person": self.record}


class CredentialDelete(QuestionPage, UserPage):
    """Asks for confirmation, and deletes an application credential of a user."""

    rule = "identity:delete_application_credential"
    question = "Delete {name} of {user}?"
    consequence = "Programs that sign in with it are refused at their next request. This cannot be undone."
    stays = True

    def find(self) -> None:
        key = str(self.kwargs["application_credential_id"])
        self.credential = existing_application_credential(self.record, key)

    def words(self) -> Mapping[str, object]:
        return {"name": bdi(self.credential.name), "user": bdi(self.record.name)}

    def do(self) -> None:
        delete_application_credential(self.credential, caller=self.context)
