"""quota_check: each kind of drift is told in plain words, mended once, and not invented while the cloud moves."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

import pytest
from django.core.management import call_command

from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance, KeyPair
from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.network import services as network
from provisioning.network.models import Network
from provisioning.quotas.jobs import check
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import detail_of, usage_of
from provisioning.quotas.services.ledger import commit, forget, reserve
from provisioning.quotas.services.limits import set_limit
from provisioning.quotas.services.repair import repair
from tests.support.clouds import Cloud, context
from tests.support.ports import guest_addresses, guest_ports

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LOST = uuid.UUID(int=77)


@pytest.fixture
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
def project(alice: RequestContext) -> uuid.UUID:
    """A project that holds something of every kind there is."""
    cloud = Cloud.make()
    cloud.launch(alice)
    assert alice.project_id is not None
    net = network.create_network(alice.project_id, "own")
    network.create_subnet(net, "10.31.0.0/24")
    network.create_port(alice.project_id, net)
    network.allow_ingress(network.ensure_default_security_group(alice.project_id), "tcp", 22)
    create_key_pair(alice, "laptop")
    assert drift.find() == []
    return alice.project_id


def raise_counter(project: uuid.UUID) -> None:
    QuotaUsage.objects.filter(project_id=project, resource="cores").update(in_use=7)


def lose_counter(project: uuid.UUID) -> None:
    QuotaUsage.objects.filter(project_id=project, resource="ram").delete()


def reserve_for_nothing(project: uuid.UUID) -> None:
    reserve(project, LOST, {"cores": 3})


def pass_the_gate_by(project: uuid.UUID) -> None:
    Network.objects.create(project_id=project, bridge="br-aside")


def forget_a_port(project: uuid.UUID) -> None:
    guest_ports().filter(project_id=project).delete()


def forget_an_address(project: uuid.UUID) -> None:
    guest_addresses().filter(port__project_id=project).delete()


def commit_too_early(project: uuid.UUID) -> None:
    commit(Instance.objects.get().id)


def move_to_another_project(project: uuid.UUID) -> None:
    Network.objects.filter(name="own").update(project_id=LOST)


def lose_a_key(project: uuid.UUID) -> None:
    KeyPair.objects.all().delete()


DRIFTS: list[tuple[Callable[[uuid.UUID], None], list[str]]] = [
    (raise_counter, ["cores: the counters show 7 in use and 1 reserved; the reservations add up to 1 reserved."]),
    (lose_counter, ["ram: the counters show 0 in use; the reservations add up to 1024 reserved."]),
    (reserve_for_nothing, [f"cores: 3 reserved for {LOST}, which does not exist or no longer holds any."]),
    (pass_the_gate_by, ["exists (1 in use) and passed no quota."]),
    (forget_a_port, ["ports: 1 in use for", "fixed_ips: 1 in use for"]),
    (forget_an_address, ["fixed_ips: 1 in use for"]),
    (commit_too_early, ["has 1 reserved."] * 4 + ["has 1024 reserved."]),
    (move_to_another_project, ["networks: 1 in use for", "passed no quota"]),
    (lose_a_key, ["User"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("spoil", "messages"), DRIFTS, ids=[spoil.__name__ for spoil, _ in DRIFTS])
def test_drift_is_reported_and_mended_once(
    project: uuid.UUID, spoil: Callable[[uuid.UUID], None], messages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(project)
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            call_command("quota_check")
        assert ended.value.code == 1
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(messages) + 1, "looking changes nothing"
        for words in messages:
            assert any(words in line for line in lines), lines
    call_command("quota_check", "--repair")
    assert "Repaired: " in capsys.readouterr().out
    call_command("quota_check")
    assert capsys.readouterr().out == "Quotas and records agree.\n"
    assert repair() == []


@pytest.mark.both_databases("locks")
def test_mended_amounts_are_those_of_the_records(project: uuid.UUID) -> None:
    before = detail_of(project)
    Reservation.objects.all().delete()
    QuotaUsage.objects.all().update(in_use=3, reserved=1)
    repair()
    assert detail_of(project) == before
    assert usage_of(project)["security_group_rules"] == 5


def test_the_job_tells_and_mends_nothing(project: uuid.UUID, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check()
        assert caplog.messages == []
        raise_counter(project)
        check()
        check()
    assert len(caplog.messages) == 4
    assert "cores: the counters show 7 in use" in caplog.messages[0]


def test_the_ledger_goes_with_its_project_and_user(project: uuid.UUID, alice: RequestContext) -> None:
    set_limit(project, "cores", 3)
    forget([project])
    assert not Reservation.objects.filter(project_id=project).exists()
    assert usage_of(project)["cores"] == 0
    assert detail_of(project)["cores"].limit == 20
    assert Reservation.objects.filter(project_id=alice.user_id).exists()
