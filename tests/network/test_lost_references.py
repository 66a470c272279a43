"""What is deleted after it was looked up, and before it is referred to, is not found; it is no error of ours."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from django.db import IntegrityError
from django.db.models import Model

from portal.api.common.views import ServiceView
from provisioning.network import services
from provisioning.network.models import Network, SecurityGroup, Subnet
from tests.support.cast import Api, Person

V2 = "/network/v2.0"
pytestmark = [pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]


def deleted_before(monkeypatch: pytest.MonkeyPatch, service: str, model: type[Model], key: str) -> None:
    """Let somebody delete a record just before a service begins that was given it."""
    real = getattr(services, service)

    def late(*args: Any, **kwargs: Any) -> Any:
        model._default_manager.filter(pk=key).delete()
        return real(*args, **kwargs)

    monkeypatch.setattr(services, service, late)


def fault(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["NeutronError"]["type"]


def test_a_group_that_a_port_takes(alice: Person, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    group = services.create_security_group(alice.project_id, "web")
    port = services.create_port(alice.project_id, net)
    before = [str(row.id) for row in port.security_groups.all()]
    deleted_before(monkeypatch, "update_port", SecurityGroup, str(group.id))
    answer = Api(alice).put(f"{V2}/ports/{port.id}", {"port": {"security_groups": [str(group.id)]}})
    assert fault(answer) == (404, "SecurityGroupNotFound")
    assert [str(row.id) for row in port.security_groups.all()] == before


def test_a_subnet_that_a_router_joins(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    network = services.create_network(alice.project_id, "inner")
    subnet = services.create_subnet(network, "10.44.0.0/24", enable_dhcp=False)
    router = services.create_router(alice.project_id, name="r")
    deleted_before(monkeypatch, "add_interface_by_subnet", Subnet, str(subnet.id))
    answer = Api(alice).put(f"{V2}/routers/{router.id}/add_router_interface", {"subnet_id": str(subnet.id)})
    assert fault(answer) == (404, "SubnetNotFound")
    assert not network.ports.exists()


def test_who_was_not_let_in_begins_nothing_anew(alice: Person, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*args: object) -> None:
        cause = sqlite3.IntegrityError("FOREIGN KEY constraint failed")
        cause.sqlite_errorcode = sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
        raise IntegrityError from cause

    monkeypatch.setattr(ServiceView, "check_rule", lost)
    answer = Api(alice).delete(f"{V2}/networks/{net.id}")
    assert answer.status_code == 500
    assert Network.objects.filter(id=net.id).exists()
