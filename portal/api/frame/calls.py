"""Operations on parts of resources, such as metadata, tags and access lists: one declaration for each."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NoReturn

from django.urls import URLPattern, path
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.requests import NEWEST, OLDEST, Schema, Version, inner
from portal.api.common.views import ServiceView, schema_for
from provisioning.common.errors import InvalidInputError, NotFoundError, NovellaError

Service = Callable[..., Any]
Views = dict[str, type[ServiceView]]
"""Path → view."""
Shape = Callable[[Any, Any], Any]
"""Returns the representation of a service's return value; the first argument is the view."""


@dataclass(frozen=True)
class Call:
    """One operation: the service that it calls, its policy rule, and its description in the OpenAPI document.

    The service gets the ``arguments`` of the view, then the content of the body, then the keywords of ``more``. The
    content is the whole body, or the value of its only member if the schema allows and requires a single one.
    """

    service: Service
    rule: str
    description: str = ""
    """If empty, the description of the policy rule is used."""
    _: KW_ONLY
    also: Sequence[str] = ()
    """Additional policy rules."""
    name: str = ""
    """The member of the response with the representation; empty: the representation is the whole body."""
    shape: Shape | None = None
    """Without it, the representation is the service's return value; without ``name`` too, the response has no body.
    It may return a whole response, and so may the service.
    """
    status: int = 0
    """Default: 200, or 204 for a response without a body."""
    body: Schema | Callable[[Version], Schema] | None = None
    read: Callable[[Any], Any] | None = None
    """Returns the content of the body, after the arguments; ``body`` then only describes it."""
    query: Schema | Callable[[Version], Schema] | None = None
    more: Callable[[Any], Mapping[str, Any]] | None = None
    """Returns keyword arguments that depend on the query or the microversion of the view."""
    since: Version = OLDEST
    until: Version = NEWEST

    @property
    def success(self) -> int:
        return self.status or (200 if self.name or self.shape else 204)


def parts(base: type[ServiceView], where: str, calls: Mapping[str, Call], **members: Any) -> Views:
    """Return the views for calls by method and path below ``where``: ``"GET"``, ``"PUT /{key}"``.

    Views also have the methods of their base.
    ``members``: additional class members of the views, such as ``resource`` for parts of a declared resource.
    """
    result: dict[str, dict[str, Call]] = {}
    for operation, call in calls.items():
        method, _, below = operation.partition(" ")
        result.setdefault(where + below, {})[method] = call
    return {each: _view(base, each, methods, members) for each, methods in result.items()}


def _view(
    base: type[ServiceView], where: str, calls: Mapping[str, Call], members: Mapping[str, Any]
) -> type[ServiceView]:
    own: dict[str, dict[str, Any]] = {
        "calls": dict(calls),
        "rules": {method: call.rule for method, call in calls.items()},
        "also": {method: call.also for method, call in calls.items() if call.also},
        "schemas": {method: call.body for method, call in calls.items() if call.body},
        "queries": {method: call.query for method, call in calls.items() if call.query},
        "sentences": {method: call.description for method, call in calls.items() if call.description},
        "successes": {method: call.success for method, call in calls.items()},
        "versions": {
            method: (call.since, call.until)
            for method, call in calls.items()
            if (call.since, call.until) != (OLDEST, NEWEST)
        },
    }
    tables = {name: {**getattr(base, name, {}), **table} for name, table in own.items()}
    handlers = {method.lower(): _handle for method in calls}
    about = {"__doc__": f"``{where}``.", "__module__": __name__}
    return type(f"{where}_{base.__name__}", (base,), {**tables, **members, **handlers, **about})


def urls(prefix: str, views: Mapping[str, type[ServiceView]]) -> list[URLPattern]:
    """Return the route of each path below the prefix; ``{name}`` in a path is an id."""
    return [path(prefix + re.sub(r"\{(\w+)\}", r"<str:\1>", where), view.as_view()) for where, view in views.items()]


def _handle(view: Any, request: Request, **ids: str) -> Response:
    method = str(request.method)
    call: Call = view.calls.get(method) or view.calls["GET"]
    if call.query:
        view.checked_query()
    content = (content_of(view),) if call.body and not call.read else ()
    arguments = view.arguments(**ids)
    if call.read:
        content = (call.read(request.data),)
    more = call.more(view) if call.more else {}
    made = call.service(*arguments, *content, **more)
    if isinstance(made, Response):
        return made
    if not (call.name or call.shape):
        return Response(status=call.success)
    shape = call.shape(view, made) if call.shape else made
    if isinstance(shape, Response):
        return shape
    return Response({call.name: shape} if call.name else shape, status=call.success)


def refuse(error: type[NovellaError], message: str) -> Service:
    """Return the service of an operation that is not supported: it raises the error."""

    def service(*specified: Any, **more: Any) -> NoReturn:
        raise error(message)

    return service


def at_version(view: ServiceView) -> dict[str, Version]:
    """``more`` of services that depend on the microversion."""
    return {"version": view.microversion}


def content_of(view: ServiceView) -> Any:
    """Return the content of the body: the value of its only member, or the whole. Raises InvalidInputError."""
    body, schema = view.checked_body(), schema_for(view.schemas, str(view.request.method), view.microversion)
    names = [*schema.get("properties", ())]
    return body[names[0]] if len(names) == 1 and schema.get("required") == names else body


def sent(view: ServiceView, made: object) -> Any:
    """Return the content of the body as the representation."""
    return content_of(view)


def _nothing(*specified: Any, **more: Any) -> None:
    raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Entries of an object: keys with values, or the names of a set such as tags. Its methods declare the operations.

    The services get the ``arguments`` of the view. The services that find, merge and replace return the object.
    """

    name: str
    """In bodies: ``metadata``."""
    item: str = ""
    """The name of a single entry in bodies: ``meta``. Empty: the body is the entry."""
    find: Service = lambda found: found
    values: Shape = lambda view, found: found
    """Returns the entries of the object that the caller may see."""
    headers: Callable[[Any, Any], Mapping[str, str]] | None = None
    """Returns headers of the responses with all entries, such as an ETag, from the view and the entries."""
    schema: Schema = field(default_factory=dict)
    """The schema of all entries in bodies."""
    merge: Service = _nothing
    """Adds or updates entries."""
    replace: Service = _nothing
    remove: Service = _nothing
    """Deletes the entry with a key. Raises NotFoundError."""
    missing: str = ""
    """Message about a missing entry; placeholders ``{found}`` (the object) and ``{key}``."""
    more: Callable[[Any], Mapping[str, Any]] | None = None
    """Additional keyword arguments of ``merge``, as in ``Call``."""

    def all(self, rule: str, description: str = "", **rest: Any) -> Call:
        """``GET``: all entries."""
        return Call(self.find, rule, description, name=self.name, shape=self._whole, **rest)

    def merging(self, rule: str, description: str = "", *, shape: Shape | None = None, **rest: Any) -> Call:
        """``POST``: add or update the entries of the body. ``shape``: default is all entries."""
        return self._write(self.merge, rule, description, shape=shape or self._whole, more=self.more, **rest)

    def replacing(self, rule: str, description: str = "", **rest: Any) -> Call:
        """``PUT``: replace all entries by those of the body."""
        return self._write(self.replace, rule, description, shape=self._whole, **rest)

    def one(self, rule: str, description: str = "", **rest: Any) -> Call:
        """``GET /{key}``: one entry."""
        return Call(self._with_key, rule, description, name=self.item, shape=self._entry, **rest)

    def check(self, rule: str, description: str = "", **rest: Any) -> Call:
        """``GET /{key}``: 204 if the entry exists."""

        def empty(view: Any, made: tuple[Any, str]) -> Response:
            self._entry(view, made)
            return Response(status=204)

        return Call(self._with_key, rule, description, shape=empty, status=204, **rest)

    def setting(self, rule: str, description: str = "", **rest: Any) -> Call:
        """``PUT /{key}``: add or update the entry of the body; its key must equal the key in the path."""
        one = self.schema | {"minProperties": 1, "maxProperties": 1}
        body = inner({self.item: one}, (self.item,)) if self.item else one
        return Call(self._set, rule, description, name=self.item, shape=sent, body=body, more=self.more, **rest)

    def removing(self, rule: str, description: str = "", **rest: Any) -> Call:
        """``DELETE /{key}``."""
        return Call(self.remove, rule, description, **rest)

    def _write(self, service: Service, rule: str, description: str, **rest: Any) -> Call:
        body = inner({self.name: self.schema}, (self.name,))
        return Call(service, rule, description, name=self.name, body=body, **rest)

    def _whole(self, view: Any, found: Any) -> Any:
        values = self.values(view, found)
        return Response({self.name: values}, headers=self.headers(view, values)) if self.headers else values

    def _with_key(self, *specified: Any) -> tuple[Any, str]:
        *owner, key = specified
        return self.find(*owner), key

    def _entry(self, view: Any, made: tuple[Any, str]) -> Mapping[str, Any]:
        found, key = made
        values = self.values(view, found)
        if key not in values:
            raise NotFoundError(self.missing.format(found=found, key=key[:255]))
        return {key: values[key]} if isinstance(values, Mapping) else {}

    def _set(self, *specified: Any, **more: Any) -> Any:
        *owner, key, entries = specified
        if key not in entries:
            raise InvalidInputError("Request body and URI mismatch", field=key[:255])
        return self.merge(*owner, entries, **more)
