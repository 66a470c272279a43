"""Views of the resources of the Networking API: lists, revisions, several new objects in one body, and tags."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

from django.db.models import QuerySet, prefetch_related_objects
from rest_framework.request import Request

from portal.api import frame
from portal.api.network.dialect import Attribute, Resource, bodies, kinds
from portal.api.network.dialect.query import FIELDS, PAGES, fields_of, query_of, read_query
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.lists.listing import ItemListing, Part, Sort
from provisioning.identity import policy
from provisioning.network import services
from provisioning.network.errors import TagNotFoundError
from provisioning.network.selectors.records import LISTING
from provisioning.network.selectors.tags import tags_of


class NetworkView(frame.ServiceView):
    """A resource of the Networking API."""

    service = "network"


ALL_PROJECTS = "novella:get_networks:all_projects"


class ResourceView(frame.ResourceView):
    """Base: finds and shows the objects that the caller may see, without attributes that the caller may not see."""

    service = "network"
    resource: ClassVar[Resource]
    http_method_names: list[str] = []
    statuses = {"create": 201, "delete": 204}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Call the resource's ``before`` after the policy check."""
        super().initial(request, *args, **kwargs)
        hidden = request.method in {"GET", "HEAD"} and not self.allows(self.resource.rule("get"))
        if self.resource.before is not None and not hidden:
            self.resource.before(self.context)

    def policy_target(self) -> dict[str, object]:
        """Return the caller's project, the target of rules before the object is read."""
        own = self.context.project_id
        return {"project_id": own, "network:project_id": own, "network:tenant_id": own}

    @property
    def operator(self) -> bool:
        """Whether the caller sees the objects of every project."""
        return self.allows(ALL_PROJECTS)

    def row(self, identity: str) -> Any:
        """Return the object of the path. Raises NotFoundError for another project's."""
        return cast("frame.Operation", self.resource.show).call(self.context, identity, all_projects=self.operator)

    def selected(self) -> Sequence[Attribute]:
        """Return the attributes in ``fields``, or all attributes if the query has no ``fields``."""
        fields = fields_of(self.request)
        return [each for each in self.resource.attributes if not fields or each.name in fields]

    def enforce(self, rules: Sequence[str], target: Mapping[str, object]) -> None:
        """Check policy rules on the object. Raises ForbiddenError."""
        for rule in rules:
            policy.enforce(self.context, rule, self.policy_target() | dict(target))

    def shapes(self, rows: Sequence[Any], attributes: Sequence[frame.Attribute] | None = None) -> list[frame.Json]:
        """Return the objects in Neutron's format, with values that are read for all objects together."""
        resource = self.resource
        names = {each.name for each in attributes or resource.attributes if each.is_shown(self)}
        more = resource.more(self.context, rows) if resource.more else {}
        tags = tags_of(row.pk for row in rows) if "tags" in names else {}
        found = super().shapes(rows, attributes)
        for row, shape in zip(rows, found, strict=True):
            shape |= {name: value for name, value in more.get(row.pk, {}).items() if name in names}
            shape |= {"tags": tags.get(row.pk, [])} if "tags" in names else {}
        return found

    def shape_of(self, identity: object) -> frame.Json:
        """Return the current representation of an object."""
        return self.shapes([self.row(str(identity))])[0]


class ListView(ResourceView, frame.ListView):
    """``/network/v2.0/{resources}``."""

    sentences = {"GET": "List the objects that match the filters, sorted and paged."}

    def check_rule(self, request: Request) -> None:
        """Allow lists without a policy check: as in Neutron, the policy hides objects instead."""
        if request.method not in {"GET", "HEAD"}:
            super().check_rule(request)

    def page(self) -> tuple[Sequence[Any], frame.Json]:
        """Return the objects that match the filters, sorted and paged, and the links to other pages.

        NotFoundError for a marker that names no object, as in Neutron.
        """
        resource = self.resource
        hidden = {each.name for each in resource.attributes if each.rule and not self.allows(each.rule)}
        filters = [each for each in resource.every_filter if each.name not in hidden]
        query = read_query(self.request, filters, resource.sort_keys)
        rows: Sequence[Any] = []
        if self.allows(resource.rule("list")):
            every = resource.list.call(self.context, all_projects=self.operator)
            try:
                rows = page_of(resource, every, query.part)
            except InvalidInputError as error:
                if error.field == "marker" and resource.show is not None:
                    self.row(str(query.part.marker))
                raise
        url = f"{frame.endpoint(self.request, 'network')}/v2.0/{resource.path}"
        links = PAGES.links(self.request, query.page, [str(row.pk) for row in rows], url)
        return rows, {f"{resource.plural}_links": links} if links else {}

    def post(self, request: Request) -> frame.Json:
        """Create one object or several; all or none."""
        resource = self.resource
        create = cast("frame.Operation", resource.create).call
        items, many = bodies.read_new(resource, request.data)
        amounts: dict[Any, dict[str, int]] = {}
        for values in items:
            if "project_id" in resource.by_name:
                self._own(values)
            target = {"project_id": values.get("project_id")}
            if resource.parent is not None:
                target |= resource.parent(self.context, values)
            self.enforce([resource.rule("create"), *bodies.guarded(resource, "create", values)], target)
            if resource.quota and resource.in_quota(values):
                amounts.setdefault(target["project_id"], Counter())[resource.quota] += 1
        made = services.create_all([partial(create, self.context, values) for values in items], amounts)
        shapes = self.shapes([self._as_it_is(made[0])] if len(made) == 1 else self._as_they_are(made))
        return {resource.plural: shapes} if many else {resource.name: shapes[0]}

    def _as_it_is(self, row: Any) -> Any:
        """Read a created row again as the caller may see it. Return the given row if it is not visible to the
        caller.
        """
        try:
            found = cast("frame.Operation", self.resource.show).call(self.context, row.pk, all_projects=True)
        except NotFoundError:
            return row
        if self.resource.related:
            prefetch_related_objects([found], *self.resource.related)
        return found

    def _as_they_are(self, made: Sequence[Any]) -> list[Any]:
        every = self.resource.list.call(self.context, all_projects=True)
        if isinstance(every, QuerySet):
            every = every.prefetch_related(*self.resource.related).filter(pk__in=[row.pk for row in made])
        rows = {row.pk: row for row in every}
        return [rows.get(row.pk, row) for row in made]

    def _own(self, values: frame.Values) -> None:
        """Set the project; only operators may specify another one."""
        project = values.setdefault("project_id", self.context.project_id)
        if project != self.context.project_id and not self.operator:
            msg = (
                "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin"
            )
            raise bodies.HTTPBadRequestError(f"{msg} privileges", field="project_id")


class DetailView(ResourceView, frame.DetailView):
    """``/network/v2.0/{resources}/{id}``."""

    sentences = {"GET": "Show a resource of this kind."}

    def check_rule(self, request: Request) -> None:
        """Answer 404 for an object that the policy hides. Raises HTTPNotFoundError."""
        if request.method in {"GET", "HEAD"} and not policy.allows(
            self.context, self.resource.rule("get"), self.policy_target()
        ):
            raise bodies.HTTPNotFoundError("The resource could not be found.")
        super().check_rule(request)

    def put(self, request: Request, identity: str) -> frame.Json:
        """Update an object; with ``If-Match: revision_number=N`` only if it is at that revision."""
        resource = self.resource
        changes, revision = (
            bodies.read_changes(resource, request.data),
            bodies.read_revision(request.headers.get("If-Match")),
        )
        row = self.row(identity)
        self.enforce([resource.rule("update"), *bodies.guarded(resource, "update", changes)], resource.target(row))
        cast("frame.Operation", resource.update).call(self.context, row, changes, revision)
        return {resource.name: self.shape_of(identity)}

    def delete(self, request: Request, identity: str) -> None:
        """Delete an object that is not in use; with ``If-Match: revision_number=N`` only if it is at that revision."""
        resource = self.resource
        revision, row = bodies.read_revision(request.headers.get("If-Match")), self.row(identity)
        self.enforce([resource.rule("delete")], resource.target(row))
        cast("frame.Operation", resource.delete).call(self.context, row, revision)


class PartView(ResourceView):
    """Base of declared calls on one object, their first argument; the rule of a change is also checked on it."""

    http_method_names = frame.ServiceView.http_method_names

    def arguments(self, identity: str = "", **ids: str) -> tuple[Any, ...]:
        row = self.row(identity)
        if self.request.method not in {"GET", "HEAD"}:
            self.enforce([self.rules[str(self.request.method)]], self.resource.target(row))
        return (row, *ids.values())


def _tag_names(body: Any) -> list[str]:
    if not isinstance(body, dict) or set(body) != {"tags"}:
        raise bodies.HTTPBadRequestError("Invalid tags body")
    try:
        return kinds.Many(kinds.Text(shortest=1), distinct=False).read(body["tags"])
    except ValueError as error:
        raise bodies.HTTPBadRequestError(f"Invalid input for tags. Reason: {error}.", field="tags") from None


def _tags(row: Any) -> list[str]:
    return tags_of([row.pk]).get(row.pk, [])


def _check_tag(row: Any, tag: str) -> None:
    if tag not in _tags(row):
        raise TagNotFoundError(f"Tag {tag[:64]} could not be found.")


ITEMS = ItemListing[Any](order=(Sort("pk", descending=False),), no_marker=LISTING.no_marker)


def page_of(resource: Resource, every: QuerySet[Any] | Sequence[Any], part: Part) -> list[Any]:
    """Return the requested page of a queryset or a sequence."""
    if isinstance(every, QuerySet):
        return LISTING.page(every.prefetch_related(*resource.related).distinct(), part)
    if resource.narrow is not None:
        every, part = resource.narrow(every, part)
    return ITEMS.page(every, part)


NETWORK = frame.Dialect(
    lists=ListView,
    details=DetailView,
    identity="(?P<identity>[^/]+?)",
    query=lambda resource: query_of(resource.every_filter, resource.sort_keys),
    one=FIELDS,
    new=bodies.new_body,
    changes=bodies.changes_body,
)


def views_of(resource: Resource) -> dict[str, type[frame.ServiceView]]:
    """Return path pattern below ``/network/v2.0`` → view."""
    result: dict[str, type[frame.ServiceView]] = {**NETWORK.views_of(resource)}
    if not resource.tagged:
        return result
    see, update, delete = (f"{verb}_{resource.plural}_tags" for verb in ("get", "update", "delete"))
    calls = {
        "GET": frame.Call(_tags, see, "List the tags of a resource.", name="tags"),
        "PUT": frame.Call(
            services.set_tags,
            update,
            "Replace all tags of a resource.",
            name="tags",
            body=bodies.TAGS_BODY,
            read=_tag_names,
        ),
        "POST": frame.Call(
            services.add_tags,
            update,
            "Add tags to the existing ones.",
            name="tags",
            body=bodies.TAGS_BODY,
            read=_tag_names,
            status=201,
        ),
        "DELETE": frame.Call(lambda row: services.set_tags(row, []), delete, "Delete all tags of a resource."),
        "GET /{tag}": frame.Call(_check_tag, see, "Answer 204 if the object has the tag."),
        "PUT /{tag}": frame.Call(
            lambda row, tag: services.add_tags(row, [tag]), update, "Add a tag to a resource.", status=201
        ),
        "DELETE /{tag}": frame.Call(services.remove_tag, delete, "Remove the tag; 404 if the object does not have it."),
    }
    return result | patterns(frame.parts(PartView, f"{resource.path}/{{identity}}/tags", calls, resource=resource))


def patterns(views: Mapping[str, type[frame.ServiceView]]) -> dict[str, type[frame.ServiceView]]:
    """Return path pattern below ``/network/v2.0`` → view; ``{name}`` in a path is an id."""
    return {re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+?)", where): view for where, view in views.items()}
