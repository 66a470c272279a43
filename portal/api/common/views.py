"""The base of every API view: authentication, policy, microversion and error format."""

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, NoReturn, cast

from django.db import connection
from django.http import HttpRequest, HttpResponseBase
from django.utils.cache import patch_vary_headers
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from portal.api.common import faults
from portal.api.common.authentication import TokenAuthentication, challenge, request_id_of
from portal.api.common.bodies import JSONNegotiation, JSONParser, JSONRenderer
from portal.api.common.requests import Microversions, Schema, Version, validate
from portal.common.http import rate_limits
from portal.common.http.rate_limits import WRITES, refusal
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import lost_race
from provisioning.common.errors import NotFoundError, NovellaError, TooManyRequestsError, UnavailableError
from provisioning.identity import policy
from provisioning.identity.errors import TooManyAttemptsError

Json = dict[str, Any]
"""A JSON object: the representation of a record, or a body."""
Schemas = Mapping[str, Schema | Callable[[Version], Schema]]
MOST_RETRIES = 3
"""Maximum number of retries of a request that loses a race."""

_SECRETS = frozenset({"adminPass", "auth_key", "blob", "console", "private_key", "remote_console", "secret"})
"""Members with a secret, or with an address that contains a secret. Responses with such members are not cached."""

READING = frozenset({"GET", "HEAD", "OPTIONS"})


class RateThrottle(BaseThrottle):
    """Counts requests that change something, as the view's ``counted`` kind; requests without a token are counted at
    sign-in.
    """

    def __init__(self) -> None:
        self._wait = 0

    def allow_request(self, request: Request, view: APIView) -> bool:
        context, kind = cast("RequestContext | None", request.auth), getattr(view, "counted", "")
        if request.method in READING or context is None or not kind:
            return True
        self._wait = rate_limits.seconds_to_wait(context, kind)
        return not self._wait

    def wait(self) -> float:
        return self._wait


def _has_secret(data: object) -> bool:
    if not isinstance(data, dict):
        return False
    parts = [data, *(each[0] if isinstance(each, list) and each else each for each in data.values())]
    return any(isinstance(part, dict) and not _SECRETS.isdisjoint(part) for part in parts)


@functools.cache
def _made(make: Callable[[Version], Schema], version: Version) -> Schema:
    return make(version)


def schema_for(schemas: Schemas, method: str, version: Version) -> Schema:
    """Return the schema of a method at a microversion; repeated calls return the same object."""
    schema = schemas[method]
    return _made(schema, version) if callable(schema) else schema


class ServiceView(APIView):
    """One resource of one service.

    A service's own base sets ``service`` and ``microversions``; a view sets ``rules``: method → name of a policy rule.
    Every method needs a rule (HEAD has the rule of GET), except in a ``public`` view. Handlers use ``self.context``
    (the caller), ``self.microversion`` and ``self.body(schema)`` (the validated body).
    """

    service: ClassVar[str] = "identity"
    microversions: ClassVar[Microversions | None] = None
    rules: ClassVar[dict[str, str]] = {}
    action_rules: ClassVar[Mapping[str, str]] = {}
    """Key in the body of a POST → the policy rule checked for it, in addition to the method's rule."""
    also: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Method → additional policy rules."""
    public: ClassVar[bool] = False
    """Whether no token is required."""
    public_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods that require no token, in a view that is not public."""
    schemas: ClassVar[Schemas] = {}
    """Method → the schema of its body, or a function of the microversion that returns it; used by ``checked_body``."""
    queries: ClassVar[Schemas] = {}
    """Method → the schema of its query, an object of lists of text; used by ``checked_query``."""

    successes: ClassVar[Mapping[str, int]] = {}
    """Method → status of a success, if it is not 200, or 204 without a body."""
    sentences: ClassVar[Mapping[str, str]] = {}
    """Method → its description in the OpenAPI document, if the handler's docstring is not."""

    versions: ClassVar[Mapping[str, tuple[Version, Version]]] = {}
    """Method → its first and last microversion; requests with other microversions get 404, after the policy check."""

    authentication_classes = [TokenAuthentication]
    permission_classes = []
    throttle_classes = [RateThrottle]
    counted: ClassVar[str] = WRITES
    """The kind in ``rate_limits`` under which requests that change something are counted."""
    limited: ClassVar[frozenset[str]] = frozenset()
    """Methods counted under another kind: sign-in attempts or searches. Requests with these methods may also get 429.
    """
    renderer_classes = [JSONRenderer]
    parser_classes = [JSONParser]
    content_negotiation_class = JSONNegotiation
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]

    admitted = False
    """Whether the policy has allowed the request."""
    context: RequestContext
    microversion: Version = (0, 0)
    malformed: Exception | None = None
    """The error of a body that cannot be parsed, if the policy check needed the body."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Reject a view that has a method without a rule, or an unknown rule."""
        super().__init_subclass__(**kwargs)
        methods = {name.upper() for name in cls.http_method_names if name != "head" and hasattr(cls, name)}
        missing = methods - cls.rules.keys() - cls.public_methods
        if missing and not cls.public:
            raise TypeError(f"{cls.__name__} has no rule for {', '.join(sorted(missing))}.")
        unknown = {*cls.rules.values(), *chain.from_iterable(cls.also.values())} - policy.RULES.keys()
        if unknown:
            raise TypeError(f"{cls.__name__} names rules that do not exist: {', '.join(sorted(unknown))}.")

    @classmethod
    def may_be_too_many(cls, method: str) -> bool:
        """Whether requests of this method are rate-limited."""
        anybody = cls.public or method in cls.public_methods
        return method in cls.limited or (method not in READING and not anybody and bool(cls.counted))

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Determine the microversion, authenticate, and check the policy, before the body is read."""
        self.format_kwarg = None
        renderer, media_type = self.perform_content_negotiation(request)
        request.accepted_renderer, request.accepted_media_type = renderer, media_type
        if self.microversions is not None:
            self.microversion = self.microversions.minimum
            self.microversion = self.microversions.requested(request)
        if not self.public and request.method not in self.public_methods:
            self.perform_authentication(request)
            self.context = cast("RequestContext", request.auth)
            request.context = request.auth  # type: ignore[attr-defined]
            self.check_rule(request)
            self.check_throttles(request)
        self.admitted = True

    def throttled(self, request: Request, wait: float | None) -> NoReturn:
        """Raise TooManyRequestsError."""
        raise refusal(self.counted, int(wait or 1))

    def check_rule(self, request: Request) -> None:
        """Check the policy and the microversion; a view whose rule depends on the object has its ``policy_target``."""
        method = "GET" if request.method == "HEAD" else str(request.method)
        rule = self.rule_of(str(request.method))
        if rule is not None:
            policy.enforce(self.context, rule, self.policy_target())
        if method in self.versions:
            self.require(*self.versions[method])
        for rule in self.also.get(method, ()):
            policy.enforce(self.context, rule, self.policy_target())

    def rule_of(self, method: str) -> str | None:
        """Return the rule of a method, or None if no rule applies. HEAD uses the rule of GET unless it has its own."""
        return self.rules.get(method) or (self.rules.get("GET") if method == "HEAD" else None)

    def arguments(self, **ids: str) -> tuple[Any, ...]:
        """Return the first arguments of the services of declared calls: the caller, and the ids of the path."""
        return (self.context, *ids.values())

    def policy_target(self) -> dict[str, object]:
        """Return the ids of the target object, for rules like ``user_id:%(user_id)s``; taken from ``self.kwargs``."""
        return {}

    def allows(self, rule: str) -> bool:
        """Whether the policy allows the caller a rule other than the view's, e.g. to see hosts."""
        return policy.allows(self.context, rule)

    def claimed(self, *names: str) -> Any:
        """Return a member of the body before its validation, for policy targets: ``claimed("user", "domain_id")``.

        None if the body does not contain it, or cannot be parsed: the policy is checked before the body.
        """
        try:
            found: Any = self.request.data
        except (NovellaError, APIException) as error:
            self.malformed = error
            return None
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def body(self, schema: Schema) -> Any:
        """Return the body, validated by the schema; the InvalidInputError for an invalid body names the field."""
        if self.malformed is not None:
            raise self.malformed
        return validate(self.request.data, schema)

    def checked_body(self) -> Any:
        """Return the body, validated by ``schemas``; the InvalidInputError for an invalid body names the field."""
        return self.body(schema_for(self.schemas, str(self.request.method), self.microversion))

    def checked_query(self) -> dict[str, list[str]]:
        """Return the query, each name with all its values, validated by ``queries``; the InvalidInputError for an
        invalid query names the parameter.
        """
        query = {str(name): list(values) for name, values in self.request.query_params.lists()}
        method = "GET" if self.request.method == "HEAD" else str(self.request.method)
        schema = schema_for(self.queries, method, self.microversion)
        checked: dict[str, list[str]] = validate(query, schema, "query parameters")
        return checked

    def require(self, minimum: Version | None = None, maximum: Version | None = None) -> None:
        """Raise NotFoundError if the request's microversion is outside the range."""
        if (minimum and self.microversion < minimum) or (maximum and self.microversion > maximum):
            raise NotFoundError("The resource could not be found.")

    @property
    def request_id(self) -> str:
        return request_id_of(self.request)

    def acted(self, made: Any, status: int = 0) -> Response:
        """Return the response to an action. ``made`` is its body, a whole response, or None for a response without a
        body.

        Default status: 200, or 202 without a body.
        """
        return made if isinstance(made, Response) else Response(made, status=status or (202 if made is None else 200))

    def handle_exception(self, exc: Exception) -> Any:
        """Answer with the fault in the service's format.

        A request that lost a race is retried from the start of its handler.
        """
        method = str(self.request.method)
        streamed = self.request.content_type == "application/octet-stream"  # a stream can be read only once
        for _ in range(MOST_RETRIES):
            if not lost_race(exc, method) or not self.admitted or streamed or connection.in_atomic_block:
                break
            try:
                return getattr(self, method.lower())(self.request, *self.args, **self.kwargs)
            except Exception as error:  # noqa: BLE001 - as every error of a handler
                exc = error
        return self.fault(exc)

    def fault(self, error: Exception) -> Response:
        status = faults.status_of(error, self.service)
        if status is None:
            message = faults.unexpected(error, self.request_id)
            status = 500
        else:
            message = faults.message_of(error, status)
        response = Response(faults.body(self.service, status, message, error), status=status)
        response.exception = True
        if status == 401:
            response["WWW-Authenticate"] = challenge(self.request)
        if isinstance(error, TooManyAttemptsError | TooManyRequestsError | UnavailableError) and error.retry_after:
            response["Retry-After"] = str(error.retry_after)
        return response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Response:
        """Add the headers common to all responses; a handler may return the body of a success, or None for no body."""
        if not isinstance(response, HttpResponseBase):
            status = self.successes.get(str(request.method)) or (204 if response is None else 200)
            response = Response(response, status=status)
        answer = super().finalize_response(request, response, *args, **kwargs)
        if _has_secret(getattr(answer, "data", None)):
            answer["Cache-Control"] = "no-store"
        vary = () if self.public else ("X-Auth-Token",)
        if self.microversions is not None:
            vary = (*vary, *self.microversions.vary)
            for name, value in self.microversions.headers(self.microversion).items():
                answer[name] = value
        if vary:
            patch_vary_headers(answer, vary)
        if self.service in {"compute", "volume"}:
            answer["X-Compute-Request-Id"] = self.request_id
        return answer


class NoSuchResource(ServiceView):
    """The 404 of a service in its format; ``NoSuchResource.of("compute")`` ends its URL patterns."""

    public = True

    @classmethod
    def of(cls, service: str) -> Any:
        return cls.as_view(service=service)

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Answer 404 for every method."""
        raise NotFoundError("The resource could not be found.")
