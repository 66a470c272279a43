"""Every declared resource of all APIs comes back as it was sent, is updated and deleted, and belongs to its project.

A new resource needs a row in ``ROWS``, or a place in ``NOT_CREATED``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from portal.api.compute.dialect.base import MICROVERSIONS
from portal.api.compute.proxies.base import ProxyView
from portal.api.frame.resource import Resource
from portal.api.frame.views import DetailView, ListView
from portal.api.volume.base import MICROVERSIONS as VOLUME_MICROVERSIONS
from provisioning.identity.services.catalog import create_service
from provisioning.identity.services.unified_limits import create_registered_limits
from provisioning.network import services as networking
from provisioning.volumes.models import GroupType, VolumeType
from tests.compute_api.test_keypairs import PUBLIC
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
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


ROWS: dict[tuple[str, str], Row] = {
    ("compute", "keypairs"): Row({"name": "mine", "public_key": PUBLIC}, "alice"),
    ("compute", "flavors"): Row(
        {"name": "small", "ram": 512, "vcpus": 1, "disk": 1, "id": "7"}, changes={"description": "for tests"}
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
    ),
    ("identity", "limits"): Row(
        {"service_id": "{service}", "resource_name": "zones", "resource_limit": 7, "project_id": "{project}"},
        changes={"resource_limit": 8},
        several=True,
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
    ),
    ("image", "namespaces"): Row({"namespace": "Tests", "description": "of tests"}, changes={"description": "other"}),
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
        {"network_id": "{network}", "ip_version": 4, "cidr": "10.30.0.0/24"}, "alice", changes={"name": "mine"}
    ),
    ("network", "subnetpools"): Row({"name": "mine", "prefixes": ["10.0.0.0/8"]}, "alice", changes={"name": "ours"}),
    ("network", "address_scopes"): Row({"name": "mine", "ip_version": 6}, "alice", changes={"name": "ours"}),
    ("network", "ports"): Row(
        {"network_id": "{network}", "mac_address": "fa:16:3e:00:00:01"}, "alice", changes={"admin_state_up": False}
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
    ),
    ("network", "default_security_group_rules"): Row(
        {"direction": "ingress", "protocol": "tcp", "port_range_min": 80, "port_range_max": 81}
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


@pytest.fixture
@standing
def world(people: People) -> World:
    alice, operator = people.alice, people.operator
    cloud = Cloud.make()
    agent = cloud.add_host("kelvin")
    agent.serve()
    service = create_service("dns").id.hex
    create_registered_limits([{"service_id": service, "resource_name": "zones", "default_limit": 1}])
    network = networking.create_network(alice.project_id, "net")
    networking.create_subnet(network, "10.20.0.0/24")
    outside = networking.create_network(operator.project_id, "outside", external=True)
    networking.create_subnet(outside, "203.0.113.0/24")
    group = networking.create_security_group(alice.project_id, "group")
    kind, together = VolumeType.objects.create(name="some"), GroupType.objects.create(name="together")
    made = Api(alice).post("/volume/v3/volumes", {"volume": {"size": 1}})
    agent.work()
    namespace = {"namespace": "Several"}
    assert Api(operator).post("/image/v2/metadefs/namespaces", namespace).status_code == 201
    ids = {
        "admin": operator.project_id.hex,
        "bob": people.bob.user_id.hex,
        "factory": people.charlie.project_id.hex,
        "group": str(group.id),
        "group_type": str(together.id),
        "network": str(network.id),
        "outside": str(outside.id),
        "project": alice.project_id.hex,
        "service": service,
        "user": alice.user_id.hex,
        "volume": made.json()["volume"]["id"],
        "volume_type": str(kind.id),
        **namespace,
    }
    return World(ids, agent, people)


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
        found = answer.json()[self.resource.plural]
        listed = [{"name": name, **found[name]} for name in found] if isinstance(found, dict) else found
        inner = [each[self.resource.name] if each.keys() == {self.resource.name} else each for each in listed]
        return [each for each in inner if key in {str(each.get(name)) for name in ("id", "name", "namespace")}]


def test_each_has_a_row() -> None:
    assert declared().keys() == ROWS.keys() | NOT_CREATED


@each_row("of", [*ROWS])
def test_it_comes_back_as_it_was_sent(world: World, of: tuple[str, str]) -> None:
    it = Examined(of, world)
    answer = it.create(it.body | {"colour": "white"})
    if not it.any_names:
        assert answer.status_code == 400, "an unknown attribute is accepted"
        answer = it.create(it.body)
    assert answer.status_code in {200, 201, 202}, answer.content
    world.agent.work()
    key = it.key_in(answer)
    own = f"{it.path.partition('?')[0]}/{key}"

    shown, lists = it.show(own), (it.path, f"{it.path}/detail") if it.resource.short else (it.path,)
    sent = {name: value for name, value in it.body.items() if name not in it.row.not_shown}
    assert {name: shown.get(name) for name in sent} == sent
    assert not it.extra or shown["colour"] == "white"
    for where in lists:
        [entry] = it.entries(where, key)
        assert {name: shown.get(name) for name in entry} == entry, where
    if it.row.caller == "alice":
        assert it.stranger.get(own).status_code in {403, 404}, "another project sees it"
        assert not it.entries(it.path.partition("?")[0], key, it.stranger), "another project lists it"

    assert bool(it.changes) == (it.resource.update is not None and of not in CHANGED_ELSEWHERE)
    if it.changes:
        answer = it.update(own, it.changes)
        assert answer.status_code in {200, 202}, answer.content
        assert _stable(it.show(own)) == _stable(shown | it.changes)

    if it.resource.delete is not None:
        assert it.api.delete(own).status_code in {200, 202, 204}
        world.agent.work()
        assert (it.api.get(own).status_code, it.api.delete(own).status_code) == (404, 404)
        assert not any(it.entries(where, key) for where in lists)


def _stable(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in {"updated_at", "revision_number"}}


@each_row("of", [of for of in ROWS if of[0] == "identity"])
def test_fixed_attributes_may_be_repeated_and_not_changed(world: World, of: tuple[str, str]) -> None:
    it = Examined(of, world)
    own = f"{it.path.partition('?')[0]}/{it.key_in(it.create(it.body))}"
    shown, known = it.show(own), it.resource.attributes
    assert own.endswith(shown["links"]["self"].rpartition("/")[2])
    if it.resource.update is None:
        return
    repeated = {each.name: shown[each.name] for each in known if (each.put or each.fixed) and each.name in shown}
    assert it.update(own, repeated).json() == {it.resource.name: shown}
    for each in known:
        if each.fixed:
            other = not shown[each.name] if isinstance(shown[each.name], bool) else "f" * 32
            assert it.update(own, {each.name: other}).status_code in {400, 403}, each.name
    answer = it.update(own, repeated | {"shape": "round"})
    assert answer.status_code == (200 if it.extra else 400)
    assert not it.extra or answer.json() == {it.resource.name: shown | {"shape": "round"}}


def test_a_microversion_has_each_attribute_once() -> None:
    spans = {"compute": MICROVERSIONS, "volume": VOLUME_MICROVERSIONS}
    versioned = [(service, resource) for (service, _), resource in declared().items() if service in spans]
    for service, resource in versioned:
        (major, first), (_, last) = spans[service].minimum, spans[service].maximum
        for minor in range(first, last + 1):
            there = [each for each in resource.attributes if each.is_at((major, minor))]
            for names in ([a.name for a in there if a.shown], [a.name for a in there if a.post]):
                assert len(names) == len(set(names)), (service, resource.name, minor)
