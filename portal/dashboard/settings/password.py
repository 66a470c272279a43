"""Changing one's own password."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.common.client_address import client_address
from portal.common.sign_in import go_on
from portal.dashboard.settings.base import SettingsPage
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError, NovellaError
from provisioning.identity import services
from provisioning.identity.errors import TooManyAttemptsError
from provisioning.identity.models import User

FIELDS = ("original", "password", "again")


@method_decorator([never_cache, sensitive_post_parameters(*FIELDS)], name="dispatch")
class Password(SettingsPage):
    """The present password, and a new one twice."""

    own_page = "dashboard:settings_password"
    rule = "identity:users:password"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        return self._form(self.user(), {}, status=200)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Change it: every other session and token of this person ends, and this browser gets a new one."""
        user = self.user()
        original, password, again = (request.POST.get(name, "") for name in FIELDS)
        try:
            if password != again:
                raise InvalidInputError("The two are not the same.", field="again")
            services.change_password(user.id, original, password, source=client_address(request))
        except TooManyAttemptsError as error:
            return self._form(user, {"original": error.message}, status=422)
        except NotAuthenticatedError:
            return self._form(user, {"original": "That is not your present password."}, status=422)
        except NovellaError as error:
            place = error.field if error.field in FIELDS else "form"
            return self._form(user, {place: error.message}, status=422)
        self.context = go_on(request, self.context)
        return self.go(
            "dashboard:settings_password",
            said="Your password was changed. You were signed out everywhere else.",
        )

    def _form(self, user: User, errors: dict[str, str], *, status: int) -> HttpResponse:
        context = {"errors": errors, "locked": bool(user.options.get("lock_password")), "person": user}
        return self.tab("dashboard/settings/password.html", context, status=status)
