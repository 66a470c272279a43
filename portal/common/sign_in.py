"""Sign-in to the pages: the browser's session contains a token, which alone authenticates requests.

There is no other kind of session: revocation of the token (sign-out, a session ended elsewhere, a new password, a
disabled user or project, a revoked role) ends the browser's session at its next request.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.csrf import rotate_token
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from portal.common.http.client_address import client_address, client_of
from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity import policy
from provisioning.identity.authentication.authenticate import PasswordProof, prove_person
from provisioning.identity.credentials import mfa
from provisioning.identity.errors import PasswordExpiredError, TooManyAttemptsError
from provisioning.identity.models import Domain, Project, User
from provisioning.identity.selectors.entries import projects_of, roles_of
from provisioning.identity.selectors.lookups import by_id, existing, record_by
from provisioning.identity.selectors.tokens import context_for_token, context_of, token_data
from provisioning.identity.services.passwords import authenticate_password, change_password
from provisioning.identity.services.sign_ins import end_session, move_session, open_browser_session
from provisioning.identity.services.tokens import (
    domain_to_enter,
    issue_token,
    project_to_enter,
    revoke_token,
    scope_for_sign_in,
    system_to_enter,
)
from provisioning.identity.tokens import tokens
from provisioning.identity.tokens.tokens import Scope, TokenData

TOKEN = "token"  # noqa: S105 - the name of the session's entry, not a token
"""The session's key for the token."""
OPERATOR_METHODS = ("password",)
WRONG = "The name or the password is wrong."
WRONG_CODE = "The name, the password or the passcode is wrong."


class SignInMiddleware(AuthenticationMiddleware):
    """Sets ``request.context`` (a RequestContext, or None) and ``request.user``, which is anonymous without a valid
    token.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Read the token of the session; without a session cookie no session is loaded or created."""
        value = str(request.session.get(TOKEN, "")) if settings.SESSION_COOKIE_NAME in request.COOKIES else ""
        context: RequestContext | None = None
        if value:
            try:
                context = context_for_token(
                    value,
                    request_id=getattr(request, "request_id", ""),
                    global_request_id=getattr(request, "global_request_id", None),
                )
            except NotAuthenticatedError:
                request.session.flush()
        _set_caller(request, context)
        request._novella_token = value if context else ""  # type: ignore[attr-defined]

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Keep session and token consistent for views that use only Django's ``login`` and ``logout`` (the admin's).

        A login by ``OperatorBackend`` stores its token in the session; if a session was emptied, its token is revoked.
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
    """Signs in users of the first domain in Django's admin if ``novella:admin`` allows them in any project."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_: Any
    ) -> User | None:
        """Return the operator, and keep its token on the request for the session; None for other users."""
        if request is None or not username or not password:
            return None
        try:
            user = authenticate_password(
                user_name=username, domain_id="default", password=password, source=client_address(request)
            )
        except NotAuthenticatedError:
            return None
        project = operators_project(user)
        if project is None or not mfa.is_enough(user, OPERATOR_METHODS):
            return None
        try:
            issued = _issue(request, user, project, OPERATOR_METHODS)
        except NotAuthenticatedError:
            return None
        request._novella_operator_token = issued.value  # type: ignore[attr-defined]
        user.is_staff = True
        return user

    def get_user(self, user_id: Any) -> User | None:
        """Return the user of Django's session key; not used by SignInMiddleware."""
        return by_id(User, user_id)


def sign_in(
    request: HttpRequest,
    user_name: str,
    password: str,
    domain: str = "Default",
    project: str | None = None,
    passcode: str = "",
) -> RequestContext:
    """Sign the browser in: start a new session with a new token, and end the previous session.

    ``domain`` is a name or an id; ``project`` is an id, by default the project of ``scope_for_sign_in``; ``passcode``
    is the code of an authenticator app. Raises NotAuthenticatedError, or its subclasses TooManyAttemptsError if the
    caller has to wait and PasswordExpiredError if the password must be changed first, and ForbiddenError for a user
    without any role.
    """
    try:
        user, methods = prove_person(_proof(user_name, password, domain), passcode, client_of(request))
    except (TooManyAttemptsError, PasswordExpiredError):
        raise
    except NotAuthenticatedError as error:
        raise NotAuthenticatedError(WRONG_CODE if settings.TOTP else WRONG) from error
    return _begin(request, user, scope_for_sign_in(user, project), methods)


def change_expired(request: HttpRequest, user_name: str, original: str, password: str, domain: str = "Default") -> None:
    """Change the password of a user who is not signed in; the current password is verified as for a sign-in.

    Raises NotAuthenticatedError, TooManyAttemptsError, and InvalidInputError if the new password is not acceptable.
    """
    proof = _proof(user_name, original, domain)
    try:
        change_password(
            None,
            original,
            password,
            source=client_address(request),
            user_name=user_name,
            domain_id=proof.domain_id,
            domain_name=proof.domain_name,
        )
    except TooManyAttemptsError:
        raise
    except NotAuthenticatedError as error:
        raise NotAuthenticatedError(WRONG) from error


def sign_out(request: HttpRequest) -> None:
    """End the session and revoke all its tokens, in all windows of this browser."""
    value = str(request.session.get(TOKEN, ""))
    if value:
        _revoke(value)
    request.session.flush()
    rotate_token(request)
    request._novella_token = ""  # type: ignore[attr-defined]
    _set_caller(request, None)


def switch_project(request: HttpRequest, project_id: str) -> RequestContext:
    """Rescope the session to another project of the user; its expiry is unchanged.

    Raises NotAuthenticatedError without a session, and ForbiddenError if the user has no role on the project.
    """
    return _switch(request, lambda user: project_to_enter(user, project_id))


def switch_domain(request: HttpRequest, domain_id: str) -> RequestContext:
    """Like ``switch_project``, with a token scoped to a domain."""
    return _switch(request, lambda user: domain_to_enter(user, domain_id))


def switch_to_system(request: HttpRequest) -> RequestContext:
    """Like ``switch_project``, with a token scoped to the system."""
    return _switch(request, system_to_enter)


def _switch(request: HttpRequest, enter: Callable[[User], Scope]) -> RequestContext:
    data = token_data(str(request.session.get(TOKEN, "")))
    user = existing(User, data.user_id.hex)
    scope = enter(user)
    if data.sign_in is not None:
        move_session(data.sign_in, scope if isinstance(scope, Project) else None)
    issued = issue_token(user, scope, ("token",), parent=data.root())
    _keep(request, issued.value, issued.data)
    return _enter(request, issued.data)


def short_token(request: HttpRequest, lifetime: timedelta) -> tokens.IssuedToken:
    """Return another token with the scope of the session's, which expires after ``lifetime`` or with the session.

    Raises NotAuthenticatedError without a session.
    """
    data = token_data(str(request.session.get(TOKEN, "")))
    user = existing(User, data.user_id.hex)
    return issue_token(user, _scope_again(user, data), ("token",), parent=data, lifetime=lifetime)


def go_on(request: HttpRequest, context: RequestContext) -> RequestContext:
    """Start a new session for the signed-in user, after all tokens of the user were revoked (by a new password)."""
    user = existing(User, context.user_id.hex if context.user_id else "")
    methods = tokens.read(str(request.session.get(TOKEN, ""))).methods
    scope = _scope_again(user, context)
    return _begin(request, user, scope, tuple(method for method in methods if method != "token"))


def _scope_again(user: User, now: TokenData | RequestContext) -> Scope:
    """Return the scope for a new token of the user: the scope of ``now``, or the scope of a sign-in if ``now`` has
    none. Raises ForbiddenError.
    """
    if now.domain_id is not None:
        return domain_to_enter(user, now.domain_id)
    if now.system:
        return system_to_enter(user)
    return scope_for_sign_in(user, now.project_id.hex if now.project_id else None)


def token_of_cookies(cookies: Mapping[str, str]) -> str:
    """Return the token in a browser's session cookie, or an empty text; for WebSockets, which have no Django
    middleware.
    """
    cookie = cookies.get(settings.SESSION_COOKIE_NAME)
    if not cookie:
        return ""
    return str(SessionStore(session_key=cookie).get(TOKEN, ""))


def _proof(user_name: str, password: str, domain: str) -> PasswordProof:
    """Return the password proof; the domain is a name or an id."""
    known = None
    if "\0" not in domain:  # PostgreSQL does not accept NUL
        known = record_by(Domain, name=domain) or by_id(Domain, domain)
        if known is None and domain == "Default":  # the first domain may have been renamed
            known = by_id(Domain, "default")
    if known is not None:
        return PasswordProof(password, user_name=user_name, domain_id=known.id)
    return PasswordProof(password, user_name=user_name, domain_name=domain)


def _begin(request: HttpRequest, user: User, scope: Scope, methods: tuple[str, ...]) -> RequestContext:
    """Start a new session of the browser, without any data of the previous one, and revoke the previous token."""
    before: str = getattr(request, "_novella_token", "")
    issued = _issue(request, user, scope, methods)
    request.session.flush()
    rotate_token(request)
    if before:
        _revoke(before)
    _keep(request, issued.value, issued.data)
    return _enter(request, issued.data)


def _issue(request: HttpRequest, user: User, scope: Scope, methods: tuple[str, ...]) -> tokens.IssuedToken:
    """Issue the first token of a new session; all its tokens refer to the session's row."""
    project = scope if isinstance(scope, Project) else None
    session = open_browser_session(user, client_of(request), methods=methods, project=project)
    return issue_token(user, scope, methods, sign_in=session)


def operators_project(user: User) -> Project | None:
    """Return the project in which the user is an operator, preferably the user's default project; None if there is
    none.
    """
    projects = [project for project in projects_of(user.id) if _operates(user, project)]
    own = [project for project in projects if project.id == user.default_project_id]
    return next(iter(own or projects), None)


def _operates(user: User, project: Project) -> bool:
    """Whether the user is an operator in this project by the policy."""
    roles = frozenset(roles_of(user.id, project.id))
    return policy.allows(RequestContext(user.id, user.name, project.id, roles=roles), "novella:admin")


def _keep(request: HttpRequest, value: str, data: TokenData) -> None:
    """Store the token in the session, which expires with it."""
    request.session[TOKEN] = value
    request.session.set_expiry(max(int((data.expires_at - timezone.now()).total_seconds()), 1))
    request._novella_token = value  # type: ignore[attr-defined]


def _enter(request: HttpRequest, data: TokenData) -> RequestContext:
    context = context_of(data, request_id=getattr(request, "request_id", "") or new_request_id())
    _set_caller(request, context)
    return context


def _set_caller(request: HttpRequest, context: RequestContext | None) -> None:
    request.context = context  # type: ignore[attr-defined]
    request.user = cast("User", SimpleLazyObject(lambda: _user_of(context)))

    async def auser() -> User | AnonymousUser:
        return await sync_to_async(_user_of)(context)

    request.auser = auser


def _user_of(context: RequestContext | None) -> User | AnonymousUser:
    if context is None or context.user_id is None:
        return AnonymousUser()
    user = by_id(User, context.user_id)
    if user is None:
        return AnonymousUser()
    user.is_staff = policy.allows(context, "novella:admin")
    return user


def _revoke(value: str) -> None:
    """End the token's session. A token without a session is revoked with its whole chain, and an invalid token is
    ignored.
    """
    try:
        data = tokens.read(value)
    except NotAuthenticatedError:
        return
    if data.sign_in is not None:
        end_session(data)
    else:
        revoke_token(data, whole_chain=True)
