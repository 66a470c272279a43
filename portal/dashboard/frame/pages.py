"""The base of all pages of the dashboard: authentication, policy, frame and error messages."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit, urlunsplit

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.contrib.messages.storage import default_storage
from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, OperationalError, connection, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views import View
from django_htmx.middleware import HtmxDetails

from portal.common.http import rate_limits
from portal.common.http.redirects import safe_next
from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.written import ASKED, Written, place_of, written
from portal.dashboard.frame import navigation, projects
from portal.dashboard.frame.edits import Collision, collision_of, forget, remember, shown_input, submitted_input
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.things import Thing, starred
from portal.dashboard.frame.tray import tray_for
from portal.dashboard.words.plain import plain
from provisioning.common.context import RequestContext
from provisioning.common.database import outage
from provisioning.common.database.retry import lost_race, serialized
from provisioning.common.errors import (
    ForbiddenError,
    NotAuthenticatedError,
    NotFoundError,
    NovellaError,
    UnavailableError,
)
from provisioning.events import selectors as events
from provisioning.identity import policy
from provisioning.identity.selectors.entries import Entries, entries_of


class PageRequest(HttpRequest):
    """A request with the attributes that the middleware sets."""

    context: RequestContext | None
    htmx: HtmxDetails
    request_id: str


READING = frozenset({"GET", "HEAD", "OPTIONS"})
SIGNED_OUT = "Your session has ended, so nothing was changed. Sign in and try again."


def sign_in_first(request: HttpRequest) -> HttpResponse:
    """Redirect a user whose session has expired, and who sent a form, to the sign-in and then back to the form."""
    messages.info(request, SIGNED_OUT)
    return redirect_to_login(page_before(request) or reverse("dashboard:overview"))


def page_before(request: HttpRequest) -> str:
    """Return the address of the page that sent the request, empty if it is not a page of this portal."""
    try:
        came_from = urlsplit(str(request.META.get("HTTP_REFERER", "")))
    except ValueError:
        return ""
    if came_from.netloc != request.get_host() or came_from.path == reverse("dashboard:sign_in"):
        return ""
    return urlunsplit(("", "", came_from.path, came_from.query, ""))


def as_unavailable(error: OperationalError) -> UnavailableError:
    """Return the error for users if the database is unavailable or aborted the request's transaction. Otherwise raise
    it: it is a bug.
    """
    if not outage.is_outage(error):
        raise error
    return UnavailableError(outage.message_of(error))


class Page(View):
    """Base of the pages that require sign-in.

    ``section`` is the navigation entry; ``rule`` is the page's policy rule; ``live_page`` is the name of the page for
    its socket, empty for a static page; ``own_page`` is the URL name of a page about the user instead of a project;
    ``back_to`` is the page on which errors are shown; ``everywhere``: the page also exists with a token for a domain or
    the system.
    """

    section = ""
    rule = ""
    live_page = ""
    own_page = ""
    back_to = "dashboard:overview"
    everywhere = False
    thing: Thing | None = None
    """The resource that the page is about, if users can star it."""
    counted = rate_limits.WRITES
    """The kind under which changing requests are counted; empty: the page counts them itself."""
    context: RequestContext

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Check sign-in, scope (a project, unless ``everywhere``) and policy, and show errors of services."""
        context = cast("PageRequest", request).context
        if context is None or not navigation.scope_of(context):
            return self._sign_in(request)
        self.context = context
        if context.project_id is None and not self.everywhere:
            return self.outside()
        if "\0" in request.path:  # PostgreSQL does not accept NUL
            raise Http404
        try:
            self._check_policy()
            if self.counted and request.method not in READING:
                rate_limits.check(context, self.counted)
            return self._handle(request, *args, **kwargs)
        except NotAuthenticatedError:
            return self._sign_in(request)
        except NotFoundError as error:
            raise Http404(error.message) from error
        except ForbiddenError as error:
            return self.forbidden(error)
        except NovellaError as error:
            return self.refused(error)

    def outside(self) -> HttpResponse:
        """Explain that the page requires a project, to a caller whose scope is not a project."""
        self.live_page = ""
        return self.page("dashboard/outside.html", {}, status=403)

    def _handle(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Handle the request. Raises UnavailableError for a change that the database aborted, unless a script sent it:
        the redirect of ``refused`` would leave the page of the script, and its input would be lost.
        """
        try:
            return self._retried(request, *args, **kwargs)
        except OperationalError as error:
            if request.method in READING or cast("PageRequest", request).htmx:
                raise
            raise as_unavailable(error) from error

    def _retried(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Handle the request; retry it once if it lost a race."""
        try:
            return super().dispatch(request, *args, **kwargs)
        except (DatabaseError, ObjectDoesNotExist) as error:
            if not lost_race(error, str(request.method)) or connection.in_atomic_block:
                raise
        self._check_policy()
        return super().dispatch(request, *args, **kwargs)

    def _check_policy(self) -> None:
        """Find the page's object, and check the page's rule, which ``target`` can set, for it."""
        if self.rule:
            target = self.target(**self.kwargs)
            policy.enforce(self.context, self.rule, target)

    def page(self, template: str, context: Mapping[str, Any] | None = None, *, status: int = 200) -> HttpResponse:
        """Render a whole page in its frame, or a partial that uses the caller."""
        entries = navigation.entries_for(self.context)
        place = projects.place_of(entries, self.section, self.own_page)
        shell = {
            "me": self.context,
            "section": self.section,
            "title": navigation.TITLES.get(self.section, ""),
            "home": navigation.HOMES.get(self.section, "dashboard:overview"),
            "entries": entries,
            "groups": navigation.groups_of(entries, self.section),
            "tabs": navigation.tabs_of(entries, self.context),
            "can_launch": self.allows("os_compute_api:servers:create"),
            "switch": projects.switch_for(self.context, self.entries(), place),
            "now": time.time(),
            "thing": self.thing,
            "starred": starred(self.context),
            "here": self.request.get_full_path(),
        }
        parts = {"tray": tray_for(self.context), **(context or {})}
        if not self.live_page and any(not row.over for row in parts["tray"]):
            self.live_page = "tray"
            parts |= {"live_since": self.live_since(), "tray": tray_for(self.context)}
        shell["live_page"] = self.live_page
        return render(self.request, template, {"shell": shell, **parts}, status=status)

    def entries(self) -> Entries:
        """Return the scopes that the user may enter: projects, domains, the system."""
        return entries_of(self.context.user_id) if self.context.user_id else Entries([], [], system=False)

    def part(self, template: str, context: Mapping[str, Any], *, status: int = 200) -> HttpResponse:
        """Render a partial without the frame."""
        return render(self.request, template, dict(context), status=status)

    def live_since(self) -> int:
        """Return the id of the newest event; must be called before rows are read, so that no change is missed."""
        return events.latest_id()

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Return the policy target of the page's object; called before ``rule`` is checked."""
        return {}

    def allows(self, rule: str, target: Mapping[str, object] | None = None) -> bool:
        """Whether the policy allows the rule for the target; used to decide which buttons are shown."""
        return policy.allows(self.context, rule, target)

    def go(self, to: str, *args: Any, message: str = "", level: int = messages.SUCCESS) -> HttpResponse:
        """Redirect to another page of the dashboard, with a message. The page that the user was on (``opened_on``) is
        shown with its search, filters and number.
        """
        if message:
            messages.add_message(self.request, level, message)
        url = reverse(to, args=args) if ":" in to else to
        shown = safe_next(self.request, "") if self.request.method == "POST" else ""
        path = urlsplit(shown).path
        if shown and (path == urlsplit(url).path or self.returns_to(path)):
            url = shown
        if cast("PageRequest", self.request).htmx:
            return HttpResponse(headers={"HX-Redirect": url})
        return HttpResponseRedirect(url, status=303)

    def returns_to(self, path: str) -> bool:
        """Whether an action that was started at ``path`` returns there instead of redirecting to another page. By
        default it does so only from the section's list.
        """
        return path == reverse(self.back_to)

    def opened_on(self) -> str:
        """Return the address of the page on which the form or question was opened. It is submitted as ``next``."""
        request = cast("PageRequest", self.request)
        if request.method == "POST":
            return request.POST.get("next", "")
        return request.htmx.current_url_abs_path or "" if request.htmx else page_before(request)

    def forbidden(self, error: ForbiddenError) -> HttpResponse:
        """Show a policy refusal on a page of its own."""
        return self.page("dashboard/refused.html", {"message": plain(error.message)}, status=403)

    def refused(self, error: NovellaError) -> HttpResponse:
        """Redirect to the page that ``back`` returns, with the error. FormPage shows errors in its form instead."""
        return self.go(self.back(), message=plain(error.message), level=messages.ERROR)

    def ask(self, question: Mapping[str, Any]) -> HttpResponse:
        """Ask for confirmation in the page's dialog, or on a page of its own for browsers without scripts."""
        question = {**question, "next": self.opened_on()}
        if cast("PageRequest", self.request).htmx:
            return self.part("dashboard/_confirm.html", question)
        return self.page("dashboard/confirm.html", question)

    def asks_for_copies(self) -> bool:
        """Whether the user pressed *Copy as* instead of the button of the action."""
        return ASKED in self.request.POST

    def written(self, calls: Sequence[Call]) -> list[Written]:
        """Return API calls in every form of *Copy as*."""
        rate_limits.check(self.context, rate_limits.DRY_RUNS)
        return written(calls, place_of(self.request, self.context))

    def show_copies(self, calls: Sequence[Call], title: str, back: str) -> HttpResponse:
        """Show the calls of an action in its dialog, or on a page of their own for browsers without scripts."""
        shown = {"copied": self.written(calls), "title": title, "back": back}
        if cast("PageRequest", self.request).htmx:
            return self.part("dashboard/_copied.html", shown)
        return self.page("dashboard/copied.html", shown)

    def back(self) -> str:
        """Return the page on which errors are shown."""
        return self.back_to

    def _sign_in(self, request: HttpRequest) -> HttpResponseBase:
        if cast("PageRequest", request).htmx:
            return HttpResponse(status=401)
        if request.method == "GET":
            return redirect_to_login(request.get_full_path())
        return sign_in_first(request)


class FormPage(Page):
    """Base of the pages with one form; errors are shown at its fields, and the input is kept."""

    template = ""
    counted = ""
    edits: ClassVar[bool] = False
    """Whether the form edits the values that it shows. If they have changed when the form is submitted, the user is
    shown both, and nothing is saved.
    """
    copied: Sequence[Written] = ()
    _is_counted = False
    _remembered: Sequence[str] = ()
    """Keys of the editors that this request has stored (``edits``)."""

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.show(self.opened())

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Save the form, show its errors, or show its API calls."""
        if self.copies and self.asks_for_copies():
            return self.copy()
        try:
            form, answer = serialized(self._edit) if self.edits else self._submitted(self.opened(request.POST))
        except OperationalError as error:
            self._forget()
            form = self.submitted_form()
            form.refuse(as_unavailable(error))
            return self.show(form, status=503)
        return self.show(form, status=422) if answer is None else answer

    def _submitted(self, form: Form) -> tuple[Form, HttpResponse | None]:
        """Save the form. Return it with the response, None if it was refused and has errors."""
        if form.is_valid():
            try:
                self._count()
                return form, self.save(form)
            except NovellaError as error:
                form.refuse(error)
        return form, None

    def _count(self) -> None:
        """Count the change against the caller's limit, once for a request, however often it is retried."""
        if not self._is_counted:
            rate_limits.check(self.context, rate_limits.WRITES)
            self._is_counted = True

    def _edit(self) -> tuple[Form, HttpResponse | None]:
        """Read the record, compare it with the values that the user was shown, and save the form, in one transaction.

        It can be called several times for a request.
        """
        self._forget()
        self.read_again()
        form = self.opened(self.request.POST)
        collision = collision_of(form, self.request.POST, self._edited(), self.context)
        if collision is not None:
            return self._collided(collision), None
        form, answer = self._submitted(form)
        if answer is None:
            transaction.set_rollback(True)
        else:
            self._remembered = remember(form, self._edited(), self.context)
        return form, answer

    def _forget(self) -> None:
        """Remove the messages and the editors of a transaction that the database aborted, if there was one."""
        cast("Any", self.request)._messages = default_storage(self.request)
        forget(self._remembered)

    def read_again(self) -> None:
        """Read the page's record in the present transaction, and check the policy for it."""
        self._check_policy()

    def _edited(self) -> str:
        """Return the name of the record that the form edits: its address, for a page about the user with the user."""
        return f"{self.request.path}?{self.context.user_id}" if self.own_page else self.request.path

    def opened(self, data: QueryDict | None = None) -> Form:
        """Return the page's form, with the digests of the values that it shows if it edits them."""
        form = self.form(data)
        if self.edits:
            form.shown = shown_input(form)
        return form

    def _collided(self, collision: Collision) -> Form:
        """Return the form with the changes of its record, its own errors, and the user's input."""
        form = self.opened(collision.data)
        form.saved = collision.saved
        for name, message in collision.messages.items():
            form.add_error(name, message)
        return form

    def form(self, data: QueryDict | None = None) -> Form:
        """Return the page's form, bound to ``data`` if given."""
        raise NotImplementedError

    def save(self, form: Form) -> HttpResponse:
        """Save the valid form and redirect; a NovellaError is shown in the form."""
        raise NotImplementedError

    def returns_to(self, path: str) -> bool:
        """Leave the list for the page of the record that the form has created or changed."""
        return False

    def extra_context(self) -> Mapping[str, Any]:
        """Return additional context for the template."""
        return {}

    def calls(self, form: Form) -> Sequence[Call]:
        """Return the API calls with the effect of the valid form. A page that overrides this has the button *Copy
        as*.
        """
        raise NotImplementedError

    @property
    def copies(self) -> bool:
        """Whether the page has the button *Copy as*."""
        return type(self).calls is not FormPage.calls

    def form_to_copy(self) -> Form:
        """Return the submitted form for *Copy as*."""
        return self.submitted_form()

    def submitted_form(self) -> Form:
        """Return the form as it was submitted, to be shown again without a comparison."""
        form = self.form(self.request.POST)
        if self.edits:
            form.shown = submitted_input(self.request.POST)
        return form

    def copy(self) -> HttpResponse:
        """Show the API calls of the form below it, or its errors."""
        form = self.form_to_copy()
        htmx = cast("PageRequest", self.request).htmx
        if form.is_valid():
            try:
                self.copied = self.written(self.calls(form))
            except NovellaError as error:
                form.refuse(error)
        if htmx and form.errors:
            problems = [
                (form[name].label if name in form.fields else "", rows[0]) for name, rows in form.errors.items()
            ]
            return self.part("dashboard/_copied.html", {"problems": problems})
        if htmx:
            return self.part("dashboard/_copied.html", {"copied": self.copied})
        return self.show(form, status=422 if form.errors else 200)

    def form_context(self, form: Form) -> dict[str, Any]:
        """Return the context of the form. A form without a record in its address creates one, and a search could hide
        that in the list, so it does not return to the search.
        """
        context = {"form": form, "next": self.opened_on() if self.kwargs else "", **self.extra_context()}
        context |= {"copies": self.copies, "copied": self.copied}
        if context.get("danger"):
            form.focuses = False  # the focus is on Cancel
        return context

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        """Show the page with this form."""
        return self.page(self.template, self.form_context(form), status=status)
