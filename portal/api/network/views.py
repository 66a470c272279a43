"""Networking API v2.0: the lists and details of every resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.links import endpoint
from portal.api.common.paging import next_links
from portal.api.network.base import NetworkView
from portal.api.network.queries import FIELDS, fields_of, query_of, read_query
from portal.api.network.resources import (
    NETWORK,
    PORT,
    SECURITY_GROUP,
    SECURITY_GROUP_RULE,
    SUBNET,
    Resource,
)
from provisioning.network import services
from provisioning.network.selectors.records import LISTING

ALL_PROJECTS = "novella:get_networks:all_projects"
PROVIDER = {
    "provider:network_type": "get_network:provider:network_type",
    "provider:physical_network": "get_network:provider:physical_network",
    "provider:segmentation_id": "get_network:provider:segmentation_id",
}
BINDING = {
    "binding:host_id": "get_port:binding:host_id",
    "binding:profile": "get_port:binding:profile",
    "binding:vif_details": "get_port:binding:vif_details",
    "binding:vif_type": "get_port:binding:vif_type",
    "binding:vnic_type": "get_port:binding:host_id",
}


class ResourceView(NetworkView):
    """Base of lists and details: what is shown depends on whether the caller operates the cloud."""

    resource: ClassVar[Resource]
    many: ClassVar[bool] = False
    operator_rules: ClassVar[Mapping[str, str]] = {}
    """Attribute → the rule of who sees it; others are shown to everybody."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Say for the OpenAPI document what lists and details can be asked for."""
        super().__init_subclass__(**kwargs)
        cls.queries = {"GET": query_of(cls.resource.filters, cls.resource.sort_keys) if cls.many else FIELDS}

    def show(self, row: Any) -> dict[str, Any]:
        """Return the object in Neutron's words, without the attributes that the caller may not see."""
        shape = self.resource.shape(row)
        for attribute, rule in self.operator_rules.items():
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


class Networks(ResourceView):
    """``/network/v2.0/networks``."""

    resource = NETWORK
    many = True
    rules = {"GET": "get_network"}
    operator_rules = PROVIDER

    def get(self, request: Request) -> Response:
        """List them."""
        return self.list_part(request)


class NetworkDetail(ResourceView):
    """``/network/v2.0/networks/{id}``."""

    resource = NETWORK
    rules = {"GET": "get_network"}
    operator_rules = PROVIDER

    def get(self, request: Request, identity: str) -> Response:
        """Show one."""
        return self.detail(request, identity)


class Subnets(ResourceView):
    """``/network/v2.0/subnets``."""

    resource = SUBNET
    many = True
    rules = {"GET": "get_subnet"}

    def get(self, request: Request) -> Response:
        """List them."""
        return self.list_part(request)


class SubnetDetail(ResourceView):
    """``/network/v2.0/subnets/{id}``."""

    resource = SUBNET
    rules = {"GET": "get_subnet"}

    def get(self, request: Request, identity: str) -> Response:
        """Show one."""
        return self.detail(request, identity)


class Ports(ResourceView):
    """``/network/v2.0/ports``."""

    resource = PORT
    many = True
    rules = {"GET": "get_port"}
    operator_rules = BINDING

    def get(self, request: Request) -> Response:
        """List them."""
        return self.list_part(request)


class PortDetail(ResourceView):
    """``/network/v2.0/ports/{id}``."""

    resource = PORT
    rules = {"GET": "get_port"}
    operator_rules = BINDING

    def get(self, request: Request, identity: str) -> Response:
        """Show one."""
        return self.detail(request, identity)


class SecurityGroups(ResourceView):
    """``/network/v2.0/security-groups``."""

    resource = SECURITY_GROUP
    many = True
    rules = {"GET": "get_security_group"}

    def get(self, request: Request) -> Response:
        """List them."""
        return self.list_part(request)


class SecurityGroupDetail(ResourceView):
    """``/network/v2.0/security-groups/{id}``."""

    resource = SECURITY_GROUP
    rules = {"GET": "get_security_group"}

    def get(self, request: Request, identity: str) -> Response:
        """Show one."""
        return self.detail(request, identity)


class SecurityGroupRules(ResourceView):
    """``/network/v2.0/security-group-rules``."""

    resource = SECURITY_GROUP_RULE
    many = True
    rules = {"GET": "get_security_group_rule"}

    def get(self, request: Request) -> Response:
        """List them."""
        return self.list_part(request)


class SecurityGroupRuleDetail(ResourceView):
    """``/network/v2.0/security-group-rules/{id}``."""

    resource = SECURITY_GROUP_RULE
    rules = {"GET": "get_security_group_rule"}

    def get(self, request: Request, identity: str) -> Response:
        """Show one."""
        return self.detail(request, identity)
