"""The declared resources of all APIs, and how each is created and changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from portal.api.compute.proxies.base import ProxyView
from portal.api.frame.resource import Resource
from portal.api.frame.views import DetailView, ListView
from tests.compute_api.test_keypairs import PUBLIC
from tests.support.cast import Api, People
from tests.support.scripted_agent import ScriptedAgent

ROOTS = {
    "compute": "/compute/v2.1",
    "identity": "/identity/v3",
    "image": "/image/v2",
    "network": "/network/v2.0",
    "volume": "/volume/v3",
}
NEWEST = {"compute": "compute 2.96", "volume": "volume 3.70"}
UPDATES = {"identity": "patch"}
"""Service → the method of updates, if it is not ``put``."""


@dataclass(frozen=True)
class Row:
    """How a resource is created, and how it changes; texts in braces are ids of ``World``."""

    body: dict[str, Any]
    caller: str = "operator"
    path: str = ""
    """The path of its list, if it has ids."""
    changes: dict[str, Any] = field(default_factory=dict)
    not_shown: tuple[str, ...] = ()
    """Attributes of the body that responses have in another form."""
    several: bool = False
    """Whether a body has a list of them."""
    another: dict[str, Any] = field(default_factory=dict)
    """The attributes of a second one that must differ, besides its name."""


ROWS: dict[tuple[str, str], Row] = {
    ("compute", "keypairs"): Row({"name": "mine", "public_key": PUBLIC}, "alice"),
    ("compute", "flavors"): Row(
        {"name": "small", "ram": 512, "vcpus": 1, "disk": 1, "id": "7"},
        changes={"description": "for tests"},
        another={"id": "8"},
    ),
    ("compute", "server_groups"): Row({"name": "apart", "policy": "anti-affinity"}, "alice"),
    ("compute", "aggregates"): Row({"name": "rack", "availability_zone": "north"}, changes={"name": "row"}),
    ("identity", "regions"): Row({"description": "north"}, changes={"description": "south"}),
    ("identity", "services"): Row({"type": "dns", "name": "names"}, changes={"name": "zones"}),
    ("identity", "endpoints"): Row(
        {"service_id": "{service}", "interface": "public", "url": "http://names/"}, changes={"url": "http://zones/"}
    ),
    ("identity", "endpoint_groups"): Row(
        {"name": "all", "filters": {"interface": "public"}}, path="OS-EP-FILTER/endpoint_groups", changes={"name": "p"}
    ),
    ("identity", "policies"): Row({"type": "text/plain", "blob": "{}"}, changes={"blob": "[]"}),
    ("identity", "registered_limits"): Row(
        {"service_id": "{service}", "resource_name": "keys", "default_limit": 5},
        changes={"default_limit": 6},
        several=True,
        another={"resource_name": "other keys"},
    ),
    ("identity", "limits"): Row(
        {"service_id": "{service}", "resource_name": "zones", "resource_limit": 7, "project_id": "{project}"},
        changes={"resource_limit": 8},
        several=True,
        another={"project_id": "{factory}"},
    ),
    ("identity", "credentials"): Row({"type": "cert", "blob": "text"}, "alice", changes={"blob": "other"}),
    ("identity", "application_credentials"): Row(
        {"name": "program", "access_rules": [{"service": "image", "method": "GET", "path": "/v2/images"}]},
        "alice",
        "users/{user}/application_credentials",
        not_shown=("access_rules",),
    ),
    ("identity", "domains"): Row(
        {"name": "other", "enabled": False, "tags": ["a"], "options": {}}, changes={"description": "second"}
    ),
    ("identity", "projects"): Row(
        {"name": "other", "description": "second", "tags": ["a", "b"]}, changes={"description": "third"}
    ),
    ("identity", "users"): Row(
        {"name": "dora", "email": "dora@example.org", "default_project_id": "{project}"}, changes={"name": "emil"}
    ),
    ("identity", "groups"): Row({"name": "writers", "description": "They write."}, changes={"name": "readers"}),
    ("identity", "roles"): Row({"name": "caretaker", "description": "Takes care."}, changes={"description": "Cares."}),
    ("identity", "trusts"): Row(
        {
            "trustor_user_id": "{user}",
            "trustee_user_id": "{bob}",
            "project_id": "{project}",
            "impersonation": False,
            "roles": [{"name": "reader"}],
        },
        "alice",
        "OS-TRUST/trusts?trustor_user_id={user}",
        not_shown=("roles",),
        another={"impersonation": True},
    ),
    ("image", "namespaces"): Row(
        {"namespace": "Tests", "description": "of tests"},
        changes={"description": "other"},
        another={"namespace": "Others"},
    ),
    ("image", "objects"): Row(
        {"name": "disk", "description": "a disk"},
        path="metadefs/namespaces/{namespace}/objects",
        changes={"description": "another"},
    ),
    ("image", "properties"): Row(
        {"name": "size", "title": "Size", "type": "integer"},
        path="metadefs/namespaces/{namespace}/properties",
        changes={"title": "Sizes"},
    ),
    ("network", "networks"): Row({"name": "mine", "mtu": 1400}, "alice", changes={"description": "of alice"}),
    ("network", "subnets"): Row(
        {"network_id": "{network}", "ip_version": 4, "cidr": "10.30.0.0/24"},
        "alice",
        changes={"name": "mine"},
        another={"cidr": "10.31.0.0/24"},
    ),
    ("network", "subnetpools"): Row({"name": "mine", "prefixes": ["10.0.0.0/8"]}, "alice", changes={"name": "ours"}),
    ("network", "address_scopes"): Row({"name": "mine", "ip_version": 6}, "alice", changes={"name": "ours"}),
    ("network", "ports"): Row(
        {"network_id": "{network}", "mac_address": "fa:16:3e:00:00:01"},
        "alice",
        changes={"admin_state_up": False},
        another={"mac_address": "fa:16:3e:00:00:02"},
    ),
    ("network", "security_groups"): Row({"name": "mine", "stateful": False}, "alice", changes={"name": "ours"}),
    ("network", "security_group_rules"): Row(
        {
            "security_group_id": "{group}",
            "direction": "ingress",
            "protocol": "tcp",
            "port_range_min": 80,
            "port_range_max": 81,
        },
        "alice",
        another={"protocol": "udp"},
    ),
    ("network", "default_security_group_rules"): Row(
        {"direction": "ingress", "protocol": "tcp", "port_range_min": 80, "port_range_max": 81},
        another={"protocol": "udp"},
    ),
    ("network", "address_groups"): Row({"name": "mine", "addresses": ["10.1.0.0/16"]}, "alice", changes={"name": "o"}),
    ("network", "routers"): Row({"name": "mine"}, "alice", changes={"description": "of alice"}),
    ("network", "floatingips"): Row({"floating_network_id": "{outside}"}, "alice", changes={"description": "of alice"}),
    ("network", "rbac_policies"): Row(
        {
            "object_type": "network",
            "object_id": "{network}",
            "action": "access_as_shared",
            "target_tenant": "{factory}",
        },
        "alice",
        changes={"target_tenant": "{admin}"},
        another={"target_tenant": "{admin}"},
    ),
    ("volume", "volumes"): Row({"size": 1, "name": "data"}, "alice", changes={"name": "other"}),
    ("volume", "snapshots"): Row({"volume_id": "{volume}", "name": "monday"}, "alice", changes={"name": "tuesday"}),
    ("volume", "attachments"): Row({"volume_uuid": "{volume}"}, "alice", not_shown=("volume_uuid",)),
    ("volume", "transfers"): Row({"volume_id": "{volume}", "name": "gift"}, "alice"),
    ("volume", "groups"): Row(
        {"name": "together", "group_type": "{group_type}", "volume_types": ["{volume_type}"]},
        "alice",
        changes={"name": "ours"},
    ),
    ("volume", "volume_types"): Row({"name": "fast", "extra_specs": {"a": "b"}}, changes={"description": "fast"}),
    ("volume", "group_types"): Row({"name": "some", "group_specs": {"a": "b"}}, changes={"description": "some"}),
    ("volume", "qos_specs"): Row({"name": "slow", "consumer": "back-end"}),
}
"""Service and plural → row."""
NOT_CREATED = {
    ("compute", "extensions"),
    ("compute", "hypervisors"),
    ("compute", "services"),
    ("identity", "access_rules"),
    ("image", "resource_type_associations"),
    ("image", "resource_types"),
    ("image", "tags"),
    ("network", "agents"),
    ("network", "availability_zones"),
    ("network", "floatingip_pools"),
    ("network", "network_ip_availabilities"),
    ("network", "service_providers"),
    ("volume", "backups"),
    ("volume", "group_snapshots"),
    ("volume", "messages"),
}
"""Created by other requests, by hosts, or with a body of another resource."""
CHANGED_ELSEWHERE = {("volume", "attachments"), ("volume", "qos_specs")}
"""Their updates have bodies of another form."""


def _views(resolver: URLResolver) -> Iterator[type[Any]]:
    for each in resolver.url_patterns:
        if isinstance(each, URLPattern):
            yield getattr(each.callback, "cls", object)
        else:
            yield from _views(each)


def declared() -> dict[tuple[str, str], Resource]:
    """Return the resources of all APIs by service and plural."""
    views = [view for view in _views(get_resolver()) if issubclass(view, ListView | DetailView)]
    own = [view for view in views if not issubclass(view, ProxyView)]
    return {(view.service, view.resource.plural): view.resource for view in own}


@dataclass
class World:
    """The ids that rows name, and the agent that works on volumes."""

    ids: dict[str, str]
    agent: ScriptedAgent
    people: People


def _filled(value: Any, ids: dict[str, str]) -> Any:
    """Return a value with ids instead of names in braces."""
    if isinstance(value, str) and value[:1] == "{" and value[1:-1] in ids:
        return ids[value[1:-1]]
    if isinstance(value, list):
        return [_filled(each, ids) for each in value]
    return {name: _filled(each, ids) for name, each in value.items()} if isinstance(value, dict) else value


@dataclass
class Examined:
    """One resource, as its caller and a stranger see it."""

    of: tuple[str, str]
    world: World

    def __post_init__(self) -> None:
        self.row, self.service = ROWS[self.of], self.of[0]
        self.resource: Any = declared()[self.of]
        self.extra = bool(getattr(self.resource, "extra", 0))
        self.any_names = self.extra or self.resource.name == "qos_specs"
        self.path = f"{ROOTS[self.service]}/{(self.row.path or self.resource.path).format(**self.world.ids)}"
        self.body, self.changes = (_filled(each, self.world.ids) for each in (self.row.body, self.row.changes))
        named = {"name": f"second {self.body['name']}"} if "name" in self.body else {}
        self.other = self.body | named | _filled(self.row.another, self.world.ids)
        self.api, self.stranger = (self._api(each) for each in (self.row.caller, "charlie"))

    def _api(self, name: str) -> Api:
        newest = NEWEST.get(self.service)
        return Api(getattr(self.world.people, name), **({"OpenStack-API-Version": newest} if newest else {}))

    def sent(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if self.service == "image" else {self.resource.name: body}

    def create(self, body: dict[str, Any]) -> Any:
        return self.api.post(self.path, {self.resource.plural: [body]} if self.row.several else self.sent(body))

    def key_in(self, answer: Any) -> str:
        content = answer.json()[self.resource.plural][0] if self.row.several else self.resource.content(answer.json())
        return str(content[getattr(self.resource, "key", "id")])

    def update(self, own: str, changes: dict[str, Any]) -> Any:
        replaced = self.body if self.service == "image" else {}  # Glance replaces the whole object
        return getattr(self.api, UPDATES.get(self.service, "put"))(own, self.sent(replaced | changes))

    def show(self, own: str) -> dict[str, Any]:
        answer = self.api.get(own)
        assert answer.status_code == 200, answer.content
        shown: dict[str, Any] = self.resource.content(answer.json())
        return shown

    def entries(self, where: str, key: str, api: Api | None = None) -> list[dict[str, Any]]:
        """Return the entries of a list that have the key."""
        answer = (api or self.api).get(where)
        if api is not None and answer.status_code == 403:
            return []
        assert answer.status_code == 200, answer.content
        result = answer.json()[self.resource.plural]
        listed = [{"name": name, **result[name]} for name in result] if isinstance(result, dict) else result
        inner = [each[self.resource.name] if each.keys() == {self.resource.name} else each for each in listed]
        return [each for each in inner if key in {str(each.get(name)) for name in ("id", "name", "namespace")}]
