"""Views derived from the declaration of a resource: list, create, show, update and delete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.requests import NEWEST, OLDEST, Schema, Version
from portal.api.common.views import ServiceView
from portal.api.frame.resource import (
    Attribute,
    Operation,
    Parameter,
    Resource,
    Values,
    changes_body,
    new_body,
    query_of,
)
from provisioning.common.values.unset import UNSET

METHODS = {
    "list": "GET",
    "detailed": "GET",
    "show": "GET",
    "create": "POST",
    "update": "PUT",
    "delete": "DELETE",
    "clear": "DELETE",
}
"""Operation → method, if the dialect has no other."""


class ResourceView(ServiceView):
    """Base: finds, reads and shows the objects of a resource."""

    resource: ClassVar[Any]
    """The declaration, a ``Resource`` of the service."""
    attributes: ClassVar[Sequence[Attribute]]
    """Attributes in the responses to GET."""
    path: ClassVar[str]
    """The path below the endpoint, without the id."""
    statuses: ClassVar[Mapping[str, int]] = {}
    """Operation → status of a success, if it is not 200."""
    parameters: ClassVar[Mapping[str, Sequence[Parameter]]] = {}
    """Method → the parameters of its query."""
    above: Mapping[str, str]
    """Ids in the path of the objects that the resource is below, by parameter."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Call the handlers with the object's id as ``identity``, without the ids in ``above``."""
        self.above = {each.parameter: kwargs.pop(each.parameter) for each in self.resource.ancestors}
        if self.resource.parameter in kwargs:
            kwargs["identity"] = kwargs.pop(self.resource.parameter)
        return super().dispatch(request, *args, **kwargs)

    @cached_property
    def query_values(self) -> Mapping[str, str]:
        """The query parameters that the microversion defines, each with its last value. Raises InvalidInputError."""
        method = "GET" if self.request.method == "HEAD" else str(self.request.method)
        found, known = self.checked_query(), self.parameters[method]
        return {
            each.name: found[each.name][-1] for each in known if each.name in found and each.is_at(self.microversion)
        }

    def selected(self) -> Sequence[Attribute]:
        """Return the attributes that the request selects."""
        return self.attributes

    def row(self, identity: str) -> Any:
        """Return the object of the path. Raises NotFoundError for another project's."""
        return self.resource.show.call(self.context, identity)

    def arguments(self, identity: str = "", **ids: str) -> tuple[Any, ...]:
        """Return the object of the path, and the other ids."""
        return (self.row(identity), *ids.values())

    def shapes(self, rows: Sequence[Any], attributes: Sequence[Attribute] | None = None) -> list[dict[str, Any]]:
        """Return the objects with their attributes, by default all, that the caller may see."""
        every = self.resource.attributes if attributes is None else attributes
        shown = [(each.name, each.reader(self, rows)) for each in every if each.is_shown(self)]
        return [{name: value for name, read in shown if (value := read(row)) is not UNSET} for row in rows]

    def values(self, *, new: bool = False) -> Values:
        """Return the values of a body, with the defaults of omitted ones if it is ``new``. Raises InvalidInputError.

        Values of names that the operation does not set as attributes are unchanged; its schema has accepted them.
        """
        settable = [each for each in self.resource.attributes if each.is_at(self.microversion)]
        known = {each.name: each for each in settable if (each.post if new else each.put)}
        found = {each.source: each.default for each in known.values() if new}
        for name, value in self.resource.content(self.checked_body()).items():
            found |= {known[name].source: known[name].kind.read(value)} if name in known else {name: value}
        return {name: value for name, value in found.items() if value is not UNSET}

    def answer(self, verb: str, made: Any) -> Response:
        """Return the response to an operation: ``made`` is the return value of its call."""
        if isinstance(made, Response):
            return made
        operation: Operation = self.resource.operation(verb)
        status = operation.status or self.statuses.get(verb, 200)
        if made is None or isinstance(made, dict):
            return Response(made, status=status)
        [shape] = self.shapes([made], operation.shows)
        return Response(self.resource.envelope(self, shape), status=status)


class ListView(ResourceView):
    """``/{resources}``."""

    http_method_names: list[str] = []

    def page(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the objects of the requested page, and other members of the body, such as links."""
        raise NotImplementedError

    def whole(self) -> dict[str, Any]:
        """Return the body of the requested page."""
        rows, beside = self.page()
        return {self.resource.plural: self.resource.entries(self.shapes(rows, self.selected()))} | beside

    def get(self, request: Request) -> Any:
        return self.whole()

    def post(self, request: Request) -> Any:
        return self.answer("create", self.resource.create.call(self, self.values(new=True)))

    def delete(self, request: Request) -> Any:
        return self.answer("clear", self.resource.clear.call(self))


class DetailView(ResourceView):
    """``/{resources}/{id}``."""

    http_method_names: list[str] = []

    def get(self, request: Request, identity: str) -> Any:
        [shape] = self.shapes([self.row(identity)], self.selected())
        return self.resource.envelope(self, shape)

    def reference(self, identity: str) -> Any:
        """Return the second argument of the calls that update and delete: the id, or in some dialects the object."""
        return identity

    def put(self, request: Request, identity: str) -> Any:
        return self.answer("update", self.resource.update.call(self, self.reference(identity), self.values()))

    patch = put

    def delete(self, request: Request, identity: str) -> Any:
        return self.answer("delete", self.resource.delete.call(self, self.reference(identity)))


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The common properties of a service's resources.

    The format of faults is that of ``service`` in its views, which also read filters, sort keys and markers of lists.
    """

    lists: type[ListView]
    details: type[DetailView]
    identity: str
    """The pattern of an id in a path; ``{parameter}`` is the name that the resource has for it."""
    query: Callable[[Any], Schema | Callable[[Version], Schema]] | None = None
    """Returns the schema of a list's query, if it has no parameters of its own."""
    parameters: Callable[[Sequence[Parameter]], Callable[[Version], Schema]] = query_of
    """Returns the schema of a query with these parameters."""
    one: Schema | None = None
    """Schema of the query of one object."""
    new: Callable[[Any], Schema | Callable[[Version], Schema]] = new_body
    """Returns the schema of a new object."""
    changes: Callable[[Any], Schema | Callable[[Version], Schema]] = changes_body
    """Returns the schema of a change."""
    methods: Mapping[str, str] = field(default_factory=lambda: METHODS)
    """Operation → method."""

    def list_path(self, resource: Resource) -> str:
        """Return the path of the list."""
        return f"{self.path_of(resource.below)}/{resource.path}" if resource.below else resource.path

    def path_of(self, resource: Resource) -> str:
        """Return the path of one object."""
        return f"{self.list_path(resource)}/{self.identity.format(parameter=resource.parameter)}"

    def views_of(self, resource: Resource) -> dict[str, type[ResourceView]]:
        """Return path → view; a view has the methods of the operations that the resource supports, and the methods with
        a rule in the dialect's own view.
        """
        one = self.path_of(resource)
        where, short = self.list_path(resource), resource.short or resource.list.shows or resource.attributes
        result = {where: self._view(self.lists, resource, ("list", "create", "clear"), short)}
        if resource.short:
            detailed = f"{resource.path}/detail"
            verb = "detailed" if resource.detailed else "list"
            view = self._view(self.lists, resource, (verb,), resource.attributes, detailed)
            words = resource.plural.replace("_", " ")
            if resource.detailed is None:
                view.sentences = {"GET": f"List {words} with all their attributes."}
            result[detailed] = view
        verbs = ("show", "update", "delete")
        if any(map(resource.operation, verbs)):
            shows = resource.show.shows if resource.show else None
            result[one] = self._view(self.details, resource, verbs, shows or resource.attributes)
        return result

    def _view(
        self,
        base: type[ResourceView],
        resource: Resource,
        verbs: Sequence[str],
        shown: Sequence[Attribute],
        path: str = "",
    ) -> type[ResourceView]:
        queries = {"list": self.query(resource) if self.query else None, "show": self.one}
        bodies = {"create": self.new(resource), "update": self.changes(resource)}
        tables = ("rules", "also", "versions", "parameters", "queries", "schemas", "successes", "sentences")
        members: dict[str, dict[str, Any]] = {table: dict(getattr(base, table)) for table in tables}
        for verb in verbs:
            method, operation = self.methods[verb], resource.operation(verb)
            if operation is None:
                continue
            members["rules"][method] = resource.rule(verb)
            span = max(resource.since, operation.since), min(resource.until, operation.until)
            declared = {
                "versions": span if span != (OLDEST, NEWEST) else None,
                "also": operation.also,
                "parameters": operation.parameters,
                "queries": self.parameters(operation.parameters) if operation.parameters else queries.get(verb),
                "schemas": operation.body or bodies.get(verb),
                "successes": operation.status or base.statuses.get(verb, 200),
                "sentences": operation.description,
            }
            for table, value in declared.items():
                members[table] |= {method: value} if value else {}
        ruled = {*members["rules"], *(["HEAD"] if "GET" in members["rules"] else [])}
        names = [each for each in ServiceView.http_method_names if each.upper() in ruled]
        own = {"resource": resource, "attributes": shown, "http_method_names": names, "path": path or resource.path}
        about = {"__doc__": base.__doc__, "__module__": __name__}
        return type(f"{resource.name}_{base.__name__}", (base,), members | own | about)
