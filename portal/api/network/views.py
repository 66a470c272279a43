"""Networking API v2.0: the lists and details of every resource."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.links import endpoint
from portal.api.common.paging import next_links
from portal.api.network.base import NetworkView
from portal.api.network.queries import FIELDS, fields_of, query_of, read_query
from portal.api.network.resources import RESOURCES, Resource
from provisioning.network import services
from provisioning.network.selectors.records import LISTING

ALL_PROJECTS = "novella:get_networks:all_projects"


class ResourceView(NetworkView):
    """Base of lists and details: what is shown depends on whether the caller operates the cloud."""

    resource: ClassVar[Resource]
    many: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Say for the OpenAPI document what lists and details can be asked for."""
        super().__init_subclass__(**kwargs)
        cls.queries = {"GET": query_of(cls.resource.filters, cls.resource.sort_keys) if cls.many else FIELDS}

    def show(self, row: Any) -> dict[str, Any]:
        """Return the object in Neutron's words, without the attributes that the caller may not see."""
        shape = self.resource.shape(row)
        for attribute, rule in self.resource.operator_rules.items():
            if not self.allows(rule):
                del shape[attribute]
        return shape

    def make_default_group(self) -> None:
        """Make the project's default security group before the first look at it, as Neutron does."""
        if self.resource.makes_default_group and self.context.project_id:
            services.ensure_default_security_group(self.context.project_id)

    def list_part(self, request: Request) -> Response:
        """Return the part of the list that is asked for; operators see every project's objects."""
        resource = self.resource
        operator = self.allows(ALL_PROJECTS)
        filters = {**resource.filters, **(resource.operator_filters if operator else {})}
        query = read_query(request, filters, resource.sort_keys)
        self.make_default_group()
        every = resource.many(self.context, all_projects=operator).prefetch_related(*resource.related).distinct()
        rows = LISTING.page(every, query.part)
        body: dict[str, Any] = {resource.plural: [query.cut(self.show(row)) for row in rows]}
        if query.page.asked:
            url = f"{endpoint(request, 'network')}/v2.0/{resource.path}"
            links = next_links(request, query.page, [str(row.id) for row in rows], url)
            body.update({f"{resource.plural}_links": links} if links else {})
        return Response(body)

    def detail(self, request: Request, identity: str) -> Response:
        """Return one object; another project's is not found."""
        self.make_default_group()
        row = self.resource.one(self.context, identity, all_projects=self.allows(ALL_PROJECTS))
        shape, fields = self.show(row), fields_of(request)
        cut = {name: value for name, value in shape.items() if name in fields} if fields else shape
        return Response({self.resource.name: cut})


def _view(resource: Resource, *, many: bool) -> type[ResourceView]:
    """Return the view of a resource's list, or of one object."""
    members = {
        "__doc__": f"``/network/v2.0/{resource.path}{'' if many else '/{id}'}``.",
        "__module__": __name__,
        "resource": resource,
        "many": many,
        "rules": {"GET": resource.rule},
        "get": ResourceView.list_part if many else ResourceView.detail,
    }
    return type(f"{resource.name}_{'list' if many else 'detail'}", (ResourceView,), members)


VIEWS = {
    f"{resource.path}{tail}": _view(resource, many=not tail)
    for resource in RESOURCES
    for tail in ("", r"/(?P<identity>[^/]+?)")
}
"""Path below ``/network/v2.0``, as a pattern → view."""
