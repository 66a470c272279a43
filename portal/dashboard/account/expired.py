"""Change of an expired password."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import urlencode
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.common.http.redirects import safe_next
from portal.common.sign_in import change_expired, sign_in
from portal.dashboard.account.forms import ExpiredPasswordForm
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError, NovellaError


def expired_form(request: HttpRequest, form: ExpiredPasswordForm, *, status: int) -> HttpResponse:
    context = {"form": form, "next": safe_next(request, "")}
    return render(request, "dashboard/account/change_expired.html", context, status=status)


@method_decorator([never_cache, sensitive_post_parameters("original", "password", "again")], name="dispatch")
class ChangeExpired(View):
    """The form with user name, current password, new password and its confirmation."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form; a signed-in user is redirected to the settings."""
        if getattr(request, "context", None) is not None:
            return redirect("dashboard:settings_password")
        return expired_form(request, ExpiredPasswordForm(), status=200)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Change the password and sign in with it; a user with additional authentication methods is redirected to the
        sign-in.
        """
        form = ExpiredPasswordForm(request.POST)
        if not form.is_valid():
            return expired_form(request, form, status=422)
        typed = form.cleaned_data
        name, domain = typed["user_name"], typed["domain"]
        try:
            change_expired(request, name, typed["original"], typed["password"], domain)
        except NovellaError as error:
            form.refuse(error)
            return expired_form(request, form, status=401 if isinstance(error, NotAuthenticatedError) else 422)
        try:
            sign_in(request, name, typed["password"], domain)
        except (NotAuthenticatedError, ForbiddenError):
            messages.success(request, "Your password was changed. Sign in with the new one.")
            query = urlencode({"next": safe_next(request)})
            return redirect(f"{reverse('dashboard:sign_in')}?{query}")
        return HttpResponseRedirect(safe_next(request), status=303)
