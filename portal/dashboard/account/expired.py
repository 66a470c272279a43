"""A new password for somebody who cannot sign in with the present one any more."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import urlencode
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.common.redirects import safe_next
from portal.common.sign_in import change_expired, sign_in
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotAuthenticatedError, NovellaError

DOMAIN = "Default"
FIELDS = ("original", "password", "again")


def expired_form(request: HttpRequest, errors: dict[str, str], *, status: int) -> HttpResponse:
    """Return the form for the person who was typed in, without any password in it."""
    context = {
        "errors": errors,
        "user_name": request.POST.get("user_name", ""),
        "domain": request.POST.get("domain", "").strip() or DOMAIN,
        "next": safe_next(request, ""),
    }
    return render(request, "dashboard/account/change_expired.html", context, status=status)


@method_decorator([never_cache, sensitive_post_parameters(*FIELDS)], name="dispatch")
class ChangeExpired(View):
    """Who someone is, the present password, and a new one twice."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form; who is signed in has a page of the settings for that."""
        if getattr(request, "context", None) is not None:
            return redirect("dashboard:settings_password")
        return expired_form(request, {}, status=200)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Change the password and sign in with it; who needs more than a password is led to the sign-in."""
        name, domain = request.POST.get("user_name", "").strip(), request.POST.get("domain", "").strip() or DOMAIN
        original, password, again = (request.POST.get(field, "") for field in FIELDS)
        try:
            if password != again:
                raise InvalidInputError("The two are not the same.", field="again")
            change_expired(request, name, original, password, domain)
        except NotAuthenticatedError as error:
            return expired_form(request, {"form": error.message}, status=401)
        except NovellaError as error:
            place = error.field if error.field in FIELDS else "form"
            return expired_form(request, {place: error.message}, status=422)
        try:
            sign_in(request, name, password, domain)
        except (NotAuthenticatedError, ForbiddenError):
            messages.success(request, "Your password was changed. Sign in with the new one.")
            query = urlencode({"next": safe_next(request)})
            return redirect(f"{reverse('dashboard:sign_in')}?{query}")
        return HttpResponseRedirect(safe_next(request), status=303)
