"""Signing in to the pages: the browser's session holds a token, and the token alone decides who asks.

There is no second kind of session: what ends a token (sign-out, a new password, a disabled user or project, a lost
role) ends the pages of that browser at its next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.csrf import rotate_token
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from portal.common.client_address import client_address
from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity import policy, selectors, services, tokens
from provisioning.identity.errors import TooManyAttemptsError
from provisioning.identity.models import Project, User
from provisioning.identity.tokens import TokenData

TOKEN = "token"  # noqa: S105 - the name of the session's entry, not a token
"""The session's entry."""
OPERATOR_METHODS = ("password",)


class SignInMiddleware(AuthenticationMiddleware):
    """Sets ``request.context`` (a RequestContext, or None) and ``request.user``: nobody without a good token."""

    def process_request(self, request: HttpRequest) -> None:
        """Look at the token of the session; a browser without a session cookie costs nothing and gets none."""
        value = str(request.session.get(TOKEN, "")) if settings.SESSION_COOKIE_NAME in request.COOKIES else ""
        context: RequestContext | None = None
        if value:
            try:
                context = selectors.context_for_token(
                    value,
                    request_id=getattr(request, "request_id", ""),
                    global_request_id=getattr(request, "global_request_id", None),
                )
            except NotAuthenticatedError:
                request.session.flush()
        _set_caller(request, context)
        request._novella_token = value if context else ""  # type: ignore[attr-defined]

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Keep session and token together for views that know only Django's ``login`` and ``logout`` (the admin's).

        A login by ``OperatorBackend`` puts its token into the session; a session that was emptied gives its token back.
        """
        issued: str | None = getattr(request, "_novella_operator_token", None)
        before: str = getattr(request, "_novella_token", "")
        if issued is not None and SESSION_KEY in request.session:
            _keep(request, issued, tokens.read(issued))
            if before:
                _revoke(before)
        elif before and TOKEN not in request.session:
            _revoke(before)
        return response


class OperatorBackend(BaseBackend):
    """Lets operators (``admin`` role on any project) of the first domain sign in by Django's form in the admin."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_: Any
    ) -> User | None:
        """Return the operator, whose token waits on the request for the session; None when it is not one."""
        if request is None or not username or not password:
            return None
        try:
            user = services.authenticate_password(
                user_name=username, domain_id="default", password=password, source=client_address(request)
            )
        except NotAuthenticatedError:
            return None
        project = _operators_project(user)
        if project is None:
            return None
        request._novella_operator_token = _issue(user, project).value  # type: ignore[attr-defined]
        user.is_staff = True
        return user

    def get_user(self, user_id: Any) -> User | None:
        """Return the user for Django's own session key; SignInMiddleware does not use it."""
        return selectors.user_by(user_id=str(user_id))


def sign_in(
    request: HttpRequest, user_name: str, password: str, domain: str = "Default", project: str | None = None
) -> RequestContext:
    """Sign the browser in: a fresh session with a new token in it.

    ``domain`` is a name or an id; ``project`` an id, else the user's default project or the first by name.  Raises
    NotAuthenticatedError (its subclass TooManyAttemptsError while the caller has to wait) and ForbiddenError without a
    role on any project.
    """
    known = None if "\0" in domain else selectors.domain_by(name=domain) or selectors.domain_by(domain_id=domain)
    try:
        user = services.authenticate_password(
            user_name=user_name,
            domain_id=known.id if known else None,
            domain_name=None if known else domain,
            password=password,
            source=client_address(request),
        )
    except TooManyAttemptsError:
        raise
    except NotAuthenticatedError as error:
        raise NotAuthenticatedError("The name or the password is wrong.") from error
    issued = _issue(user, services.project_for_sign_in(user, project))
    request.session.flush()
    rotate_token(request)
    _keep(request, issued.value, issued.data)
    return _enter(request, issued.data)


def sign_out(request: HttpRequest) -> None:
    """End the session and every token that was got for it, in all windows of this browser."""
    value = str(request.session.get(TOKEN, ""))
    if value:
        _revoke(value)
    request.session.flush()
    rotate_token(request)
    request._novella_token = ""  # type: ignore[attr-defined]
    _set_caller(request, None)


def switch_project(request: HttpRequest, project_id: str) -> RequestContext:
    """Go on in another project of the user; the session ends no later than before.

    Raises NotAuthenticatedError when nobody is signed in and ForbiddenError when the user has no role there.
    """
    data = selectors.token_data(str(request.session.get(TOKEN, "")))
    user = selectors.existing_user(data.user_id.hex)
    project = services.project_for_sign_in(user, project_id)
    issued = services.issue_token(user, project, ("token",), parent=data.root())
    _keep(request, issued.value, issued.data)
    return _enter(request, issued.data)


def go_on(request: HttpRequest, context: RequestContext) -> RequestContext:
    """Begin the session anew for who is signed in, after what ended every token of this person (a new password)."""
    user = selectors.existing_user(context.user_id.hex if context.user_id else "")
    project = services.project_for_sign_in(user, context.project_id.hex if context.project_id else None)
    issued = _issue(user, project)
    request.session.flush()
    rotate_token(request)
    _keep(request, issued.value, issued.data)
    return _enter(request, issued.data)


def token_of_cookies(cookies: Mapping[str, str]) -> str:
    """Return the token in a browser's session cookie, or an empty text; WebSockets have no middleware of Django's."""
    cookie = cookies.get(settings.SESSION_COOKIE_NAME)
    if not cookie:
        return ""
    store: type[SessionBase] = import_module(settings.SESSION_ENGINE).SessionStore
    return str(store(session_key=cookie).get(TOKEN, ""))


def _issue(user: User, project: Project) -> tokens.IssuedToken:
    """Issue the session's token under a first one that nobody holds: revoking that one ends all that follow."""
    first = tokens.issue(user, None, OPERATOR_METHODS)
    return services.issue_token(user, project, OPERATOR_METHODS, parent=first.data)


def _operators_project(user: User) -> Project | None:
    """Return the project in which the user operates the cloud: the default one if possible."""
    found = [
        project for project in selectors.projects_of(user.id) if "admin" in selectors.roles_of(user.id, project.id)
    ]
    own = [project for project in found if project.id == user.default_project_id]
    return next(iter(own or found), None)


def _keep(request: HttpRequest, value: str, data: TokenData) -> None:
    """Put the token into the session, which the browser keeps no longer than the token is good for."""
    request.session[TOKEN] = value
    request.session.set_expiry(max(int((data.expires_at - timezone.now()).total_seconds()), 1))
    request._novella_token = value  # type: ignore[attr-defined]


def _enter(request: HttpRequest, data: TokenData) -> RequestContext:
    context = selectors.context_of(data, request_id=getattr(request, "request_id", "") or new_request_id())
    _set_caller(request, context)
    return context


def _set_caller(request: HttpRequest, context: RequestContext | None) -> None:
    request.context = context  # type: ignore[attr-defined]
    request.user = cast("User", SimpleLazyObject(lambda: _user_of(context)))

    async def auser() -> User | AnonymousUser:
        return AnonymousUser() if context is None else await User.objects.aget(id=str(context.user_id))

    request.auser = auser


def _user_of(context: RequestContext | None) -> User | AnonymousUser:
    if context is None or context.user_id is None:
        return AnonymousUser()
    user = User.objects.select_related("domain").filter(id=context.user_id).first()
    if user is None:
        return AnonymousUser()
    user.is_staff = policy.allows(context, "ops:admin")
    return user


def _revoke(value: str) -> None:
    """Give back the session's token with all of its chain; one that is void already needs nothing."""
    try:
        data = tokens.read(value)
    except NotAuthenticatedError:
        return
    services.revoke_token(data, whole_chain=True)
