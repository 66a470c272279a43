"""Change of the user's own password."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.common.http.client_address import client_address
from portal.common.sign_in import go_on
from portal.dashboard.copy_as.calls import Call, Secret
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.settings.base import SettingsPage
from portal.dashboard.settings.forms import NewPasswordForm
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.identity.errors import TooManyAttemptsError
from provisioning.identity.services.passwords import change_password


@method_decorator([never_cache, sensitive_post_parameters("original", "password", "again")], name="dispatch")
class Password(FormPage, SettingsPage):
    """The form for a new password."""

    own_page = "dashboard:settings_password"
    rule = "identity:change_password"
    template = "dashboard/settings/password.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return NewPasswordForm(data)

    def save(self, form: Form) -> HttpResponse:
        """Change the password: all other sessions and tokens of the user are revoked, and this browser gets a new
        session.
        """
        typed = form.cleaned_data
        source = client_address(self.request)
        try:
            change_password(self.user.id, typed["original"], typed["password"], source=source)
        except TooManyAttemptsError as error:
            raise InvalidInputError(error.message, field="original") from error
        except NotAuthenticatedError as error:
            raise InvalidInputError("The current password is wrong.", field="original") from error
        self.context = go_on(self.request, self.context)
        message = "Your password was changed. You were signed out everywhere else."
        return self.go("dashboard:settings_password", message=message)

    def calls(self, form: Form) -> Sequence[Call]:
        values = {name: Secret(name) for name in ("original_password", "password")}
        return [Call(copied.OWN_PASSWORD, {"user": self.user.id.hex, **values})]

    def extra_context(self) -> Mapping[str, Any]:
        return {"locked": bool(self.user.options.get("lock_password")), "person": self.user}
