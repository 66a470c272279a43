"""The view of the EC2 API: authenticates a signed request, runs its action and responds in XML.

All versions of the Query protocol are accepted, and responses have the format of the newest.
"""

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

from django.conf import settings
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from portal.api.common.ec2_faults import CONTENT_TYPE, SERVICE, fault
from portal.api.common.links import endpoint
from portal.api.ec2 import sts
from portal.api.ec2.actions.every import ACTIONS
from portal.api.ec2.frame import ALWAYS_TAKEN, Action, Call, Ec2Error, errors
from portal.api.ec2.protocol import faults, model, parse, render
from portal.api.ec2.protocol.signed import OF_PROTOCOL, signed_request
from portal.common.http import rate_limits
from portal.web.handler import hold_back
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import lost_race
from provisioning.common.errors import NotAuthenticatedError
from provisioning.common.values.ids import NOBODY
from provisioning.ec2 import client_tokens, signatures
from provisioning.identity import policy
from provisioning.identity.credentials import access_rules
from provisioning.identity.credentials.ec2_signatures import SignedRequest
from provisioning.identity.services.ec2 import context_for_request

MOST_ATTEMPTS = 3
"""Maximum number of attempts to run an action that loses a race."""
REFUSED = "AWS was not able to validate the provided access credentials"
Pairs = Sequence[tuple[str, str]]


@method_decorator(csrf_exempt, name="dispatch")  # signatures authenticate, not cookies
class Ec2View(View):
    """``GET`` and ``POST /ec2/``: every action of EC2, by the parameter ``Action``."""

    http_method_names = ["get", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._answer(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        return self._answer(request)

    def http_method_not_allowed(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Answer 405 in XML."""
        request_id: str = request.request_id  # type: ignore[attr-defined]
        body = fault("UnsupportedProtocol", "Requests are sent with GET or POST", request_id)
        return HttpResponse(body, status=405, content_type=CONTENT_TYPE, headers={"Allow": "GET, POST"})

    def _answer(self, request: HttpRequest) -> HttpResponse:
        request_id: str = request.request_id  # type: ignore[attr-defined]
        action: Action | None = None
        wait, of_sts = 0.0, False
        try:
            pairs = _pairs(request)
            of_sts = sts.is_requested(pairs)
            signed = signed_request(request, pairs, sts.SERVICE if of_sts else model.SERVICE)
            context = _authenticate(request, signed, request_id)
            named = dict(pairs)
            if of_sts:
                body = sts.answer(context, named, request_id)
            else:
                action = _action_of(named)
                version = version_of(named)
                arguments = _arguments(action, context, pairs)
                content = _done(action, Call(context, arguments, settings.REGION, endpoint(request, SERVICE)), signed)
                body = render.document(model.operation(action.name), content, request_id=request_id, version=version)
            status = 200
        except Exception as error:  # noqa: BLE001 - every error is answered in EC2's format
            status, code, message = faults.code_of(error, action, request_id)
            body = (sts.fault if of_sts else fault)(code, message, request_id)
            if isinstance(error, signatures.SignedAlikeError):
                wait = error.wait.total_seconds()
        answer = HttpResponse(body, status=status, content_type=CONTENT_TYPE)
        answer["Cache-Control"] = "no-store"
        if wait:
            answer["Retry-After"] = "1"
            hold_back(answer, wait)
        answer._has_been_logged = status == 503  # type: ignore[attr-defined]  # Django would log it as an error of the server
        answer["X-Amzn-Requestid"] = request_id
        return answer


@method_decorator(csrf_exempt, name="dispatch")
class NoSuchResource(View):
    """Unknown paths below the endpoint: 404."""

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Answer 404 for every method."""
        request_id: str = request.request_id  # type: ignore[attr-defined]
        body = fault("InvalidAction", "There is nothing at this path: the endpoint is /ec2/", request_id)
        return HttpResponse(body, status=404, content_type=CONTENT_TYPE)


def _pairs(request: HttpRequest) -> Pairs:
    """Return the parameters. Raises Ec2Error if they are malformed, too many, or repeated."""
    query = request.META.get("QUERY_STRING", "")
    if request.method == "POST":
        if query:
            raise errors.malformed("The parameters of a POST are sent in its body, not in its address")
        query = request.body.decode("utf-8", "replace")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=parse.MOST_PARAMETERS)
    except ValueError as error:
        raise errors.malformed(f"A request may have {parse.MOST_PARAMETERS} parameters at most") from error
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise errors.malformed(f"The parameter {name[:120]} is given twice")
        seen.add(name)
    return pairs


def _authenticate(request: HttpRequest, signed: SignedRequest, request_id: str) -> RequestContext:
    """Return the context of the user who signed the request. Raises Ec2Error, with the same message for every reason
    except a wrong time.
    """
    if not signed.is_timely:
        raise Ec2Error(
            "RequestExpired",
            "Request has expired, or its time is missing or ahead of this cloud's by more than 15 minutes",
        )
    global_request_id = getattr(request, "global_request_id", None)
    try:
        context = context_for_request(signed, request_id=request_id, global_request_id=global_request_id)
    except NotAuthenticatedError as error:
        raise Ec2Error("AuthFailure", REFUSED, status=401) from error
    path = "/" + request.path_info.lstrip("/").partition("/")[2]
    rules = context.access_rules
    if rules is not None and not access_rules.allows(rules, SERVICE, str(request.method), path):
        raise Ec2Error(
            "AuthFailure", "The access rules of this application credential do not allow this request", status=401
        )
    return context


def _action_of(named: dict[str, str]) -> Action:
    name = named.get("Action")
    if not name:
        raise errors.missing_parameter("Action")
    if name in ACTIONS:
        return ACTIONS[name]
    if name in model.names():
        raise Ec2Error("InvalidAction", f"The action {name} is not offered by this cloud")
    raise Ec2Error("InvalidAction", f"The action {name[:120]} is not valid for this web service")


def _arguments(action: Action, context: RequestContext, pairs: Pairs) -> dict[str, object]:
    """Return the arguments, after the policy check."""
    own = context.project_id  # resources in the arguments are checked later
    target = {"project_id": own, "network:project_id": own, "network:tenant_id": own}
    for rule in action.rules:
        policy.enforce(context, rule, target)
    parameters = [(name, value) for name, value in pairs if name not in OF_PROTOCOL]
    arguments = parse.arguments(model.operation(action.name), parameters)
    unsupported = sorted(arguments.keys() - action.takes - action.ignored - ALWAYS_TAKEN)
    unsupported = [name for name in unsupported if not _is_off(arguments[name])]
    if unsupported:
        raise errors.unsupported(f"The parameter {unsupported[0]} is not supported for {action.name} by this cloud")
    if action.changes:
        rate_limits.check(context, rate_limits.WRITES)
    if arguments.get("DryRun"):
        raise Ec2Error("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", status=412)
    return arguments


def _is_off(value: object) -> bool:
    """Whether an argument disables a feature. Such an argument is accepted even if this cloud does not have the
    feature.
    """
    return value is False or (isinstance(value, dict) and bool(value) and all(each is False for each in value.values()))


def _done(action: Action, call: Call, signed: SignedRequest) -> str:
    """Run the action, with retries if it loses a race; return the content of the response.

    An action that writes is one transaction, unless its declaration has ``whole=False``.
    """
    if action.changes and not _is_repeatable(action, call, signed):
        _spend(signed)
    if not action.changes or not action.whole:
        return _handle(action, call)
    for _ in range(MOST_ATTEMPTS - 1):
        try:
            with transaction.atomic():
                return _once(action, call)
        except Exception as error:
            if connection.in_atomic_block or not lost_race(error, "PUT"):  # nothing was written
                raise
    with transaction.atomic():
        return _once(action, call)


def _once(action: Action, call: Call) -> str:
    """Run an action with a ``ClientToken`` only once. A repetition of the request gets the first response."""
    token = call.get("ClientToken")
    if not token:
        return _handle(action, call)
    owner = client_tokens.Owner(call.project_id, call.context.user_id or NOBODY, action.name)
    arguments = {name: value for name, value in call.arguments.items() if name != "ClientToken"}
    return client_tokens.once(owner, token, repr(sorted(arguments.items())), lambda: _handle(action, call))


def _handle(action: Action, call: Call) -> str:
    return render.body(model.operation(action.name), action.handler(call))


def _is_repeatable(action: Action, call: Call, signed: SignedRequest) -> bool:
    """Whether a client token keeps the request idempotent for longer than its signature is valid."""
    return action.whole and bool(call.get("ClientToken")) and "Expires" not in signed.params


def _spend(signed: SignedRequest) -> None:
    """Accept a signature once. Raises Ec2Error RequestExpired for a replay.

    Within the same second, another legitimate request may have an equal signature. SignedAlikeError asks its client
    to retry; AWS clients do so immediately, and the retry succeeds once its signature differs.
    """
    try:
        signatures.spend(signed)
    except NotAuthenticatedError as error:
        raise Ec2Error("RequestExpired", error.message) from error


NEWEST = "2016-11-15"
FIRST = "2006-06-26"
_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def version_of(named: dict[str, str]) -> str:
    """Return the requested version. Raises Ec2Error if no version has this date."""
    version = named.get("Version")
    if not version:
        raise errors.missing_parameter("Version")
    if not _FORM.fullmatch(version) or not FIRST <= version <= NEWEST:
        raise Ec2Error("NoSuchVersion", f"The requested version ({version[:40]}) of service AmazonEC2 does not exist")
    return version
