"""Sign-in, sign-out, and the change of the project."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.common.http.redirects import safe_next
from portal.common.sign_in import sign_in, sign_out, switch_domain, switch_project, switch_to_system
from portal.dashboard.account.expired import expired_form
from portal.dashboard.account.forms import ExpiredPasswordForm, SignInForm
from portal.dashboard.frame import projects
from portal.dashboard.frame.pages import Page
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError, NovellaError
from provisioning.identity.errors import PasswordExpiredError
from provisioning.identity.models import Domain
from provisioning.identity.selectors.lookups import by_id

LONGEST_SEARCH = 256


@method_decorator([never_cache, sensitive_post_parameters("password", "passcode")], name="dispatch")
class SignIn(View):
    """The sign-in."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form; a signed-in user is redirected."""
        if getattr(request, "context", None) is not None:
            return redirect(safe_next(request))
        return self._form(request, SignInForm(), status=200)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Sign in; a wrong name and a wrong password get the same response."""
        form = SignInForm(request.POST)
        if not form.is_valid():
            return self._form(request, form, status=422)
        typed = form.cleaned_data
        name, domain = typed["user_name"], typed["domain"]
        try:
            sign_in(request, name, typed["password"], domain, passcode=typed.get("passcode", ""))
        except PasswordExpiredError:
            expired = ExpiredPasswordForm(initial={"user_name": name, "domain": domain})
            return expired_form(request, expired, status=401)
        except (NotAuthenticatedError, ForbiddenError) as error:
            form.refuse(error)
            return self._form(request, form, status=401)
        return HttpResponseRedirect(safe_next(request), status=303)

    def _form(self, request: HttpRequest, form: SignInForm, *, status: int) -> HttpResponse:
        context = {"form": form, "next": safe_next(request, "")}
        return render(request, "dashboard/account/sign_in.html", context, status=status)


class SignOut(View):
    """The sign-out."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """End the session and its tokens."""
        sign_out(request)
        return redirect("dashboard:sign_in")


class SwitchScope(View):
    """Base of the views that change the scope of the session."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Change the scope; stay on a page that exists in the new scope, otherwise go to the overview."""
        place = reverse("dashboard:overview")
        try:
            context = self.enter(request, **kwargs)
        except NotAuthenticatedError:
            return redirect("dashboard:sign_in")
        except NovellaError as error:
            messages.error(request, error.message)
        else:
            messages.success(request, self.message(context))
            place = projects.place_in(context, request.POST.get("next", ""))
        return redirect(place)

    def enter(self, request: HttpRequest, **kwargs: Any) -> RequestContext:
        """Rescope the token of the session. Raises ForbiddenError, NotAuthenticatedError."""
        raise NotImplementedError

    def message(self, context: RequestContext) -> str:
        """Return the message after the change."""
        raise NotImplementedError


class SwitchProject(SwitchScope):
    """Changes the scope of the session to another project."""

    def enter(self, request: HttpRequest, **kwargs: Any) -> RequestContext:
        return switch_project(request, kwargs["project_id"].hex)

    def message(self, context: RequestContext) -> str:
        return f"You now work in {bdi(context.project_name)}."


class SwitchDomain(SwitchScope):
    """Changes the scope of the session to a domain."""

    def enter(self, request: HttpRequest, **kwargs: Any) -> RequestContext:
        return switch_domain(request, kwargs["domain_id"])

    def message(self, context: RequestContext) -> str:
        domain = by_id(Domain, context.domain_id)
        return f"You now administer the domain {domain.name if domain else context.domain_id}."


class SwitchToSystem(SwitchScope):
    """Changes the scope of the session to the system."""

    def enter(self, request: HttpRequest, **kwargs: Any) -> RequestContext:
        return switch_to_system(request)

    def message(self, context: RequestContext) -> str:
        return "You now administer the whole cloud."


class ProjectSearch(Page):
    """Search of the scope switch for projects."""

    everywhere = True
    http_method_names = ["get"]

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the projects whose names contain the text, in the list of the scope switch."""
        text = request.GET.get("q", "")[:LONGEST_SEARCH]
        switch = projects.switch_for(self.context, self.entries(), "", text=text)
        return self.part("dashboard/_projects.html", {"switch": switch})
