"""Hosts that say they have documents of others: they are told nothing that the portal has not told them before."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.utils.crypto import get_random_string
from pytest_django import Settings

from compute_agent.contract.messages import DOCUMENTS, Owned
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP
from provisioning.common.context import RequestContext
from provisioning.hosts import audits
from provisioning.hosts.models import HostCommand
from provisioning.network import services
from provisioning.network.delivery import comparing, documents, jobs, sending
from provisioning.network.models import Delivery, DeliveryMark, Network, Port
from provisioning.network.records.marks import HOST
from tests.network.delivery.conftest import knew, known
from tests.support.clouds import Cloud
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = pytest.mark.slow

Claim = Callable[[uuid.UUID, ScriptedAgent, ScriptedAgent], str]


@pytest.fixture
@standing
def hosts(cloud: Cloud, alice: RequestContext) -> tuple[ScriptedAgent, ScriptedAgent]:
    """Return the host of a guest on the cloud's network, and one that has nothing there."""
    mine = cloud.agent_of(cloud.running(alice))
    other = next(agent for agent in cloud.agents.values() if agent is not mine)
    assert known(mine, NETWORK, cloud.network.id) is not None
    assert known(other, NETWORK, cloud.network.id) is None
    return mine, other


def say(agent: ScriptedAgent, *owned: Owned) -> None:
    agent.hello(documents=[*agent.listed(), *owned], contract=DOCUMENTS)


def of_another_number(key: uuid.UUID, mine: ScriptedAgent, liar: ScriptedAgent) -> str:
    return sending.mark_of(Delivery(host_id=liar.host.id, kind=NETWORK, subject_id=key, generation=1), "x")


CLAIMS: list[Claim] = [
    lambda key, mine, liar: "",
    lambda key, mine, liar: "x",
    lambda key, mine, liar: "x.ö",
    lambda key, mine, liar: mine.digests[NETWORK, str(key)],
    of_another_number,
]


@pytest.mark.both_databases
@pytest.mark.parametrize("claim", CLAIMS, ids=["none", "invented", "odd", "another's", "of another number"])
def test_a_host_is_not_notified_of_a_network_that_it_does_not_know(
    cloud: Cloud, hosts: tuple[ScriptedAgent, ScriptedAgent], claim: Claim
) -> None:
    mine, liar = hosts
    key, before = cloud.network.id, dict(mine.documents)
    digest = claim(key, mine, liar)
    generation = 9 if digest else mine.documents[NETWORK, str(key)][0]
    owned = Owned(NETWORK, str(key), generation, digest=digest, in_use=True, vni=cloud.network.segmentation_id)
    say(liar, owned)
    cloud.run()
    audits.compare_documents(liar.host.id, [owned], complete=False)
    cloud.run()
    assert liar.documents == {}
    assert mine.documents == before, "its traffic goes to nobody else"
    assert not Delivery.objects.filter(host_id=liar.host.id).exists()


def test_a_host_does_not_get_back_what_it_should_forget(
    cloud: Cloud, hosts: tuple[ScriptedAgent, ScriptedAgent]
) -> None:
    mine, _ = hosts
    key = str(cloud.network.id)
    generation, digest = mine.documents[NETWORK, key][0], mine.digests[NETWORK, key]
    Port.objects.filter(host=mine.host.name, device_owner__startswith="compute").update(host="")
    sending.bring_host(mine.host.id)
    cloud.run()
    assert known(mine, NETWORK, key) is None
    say(mine, Owned(NETWORK, key, generation, digest=digest, in_use=True))
    cloud.run()
    assert known(mine, NETWORK, key) is None
    assert not Delivery.objects.filter(kept=True).exists()


def test_what_hosts_make_up_is_no_work_for_anybody(cloud: Cloud, hosts: tuple[ScriptedAgent, ScriptedAgent]) -> None:
    """Each would be a row, a job of the queue and a command that the host does not answer."""
    _, liar = hosts
    subjects = DeliveryMark.objects.exclude(kind=HOST)
    counts = Delivery.objects.count(), subjects.count(), HostCommand.objects.count()
    for kind in (NETWORK, SECURITY_GROUP, ROUTER, FLOATING_IP):
        documents = [
            Owned(kind, str(uuid.uuid4()), 10**30, digest="x", in_use=True, vni=number) for number in range(1, 9)
        ]
        say(liar, *documents)
        audits.compare_documents(liar.host.id, documents, complete=False)
    assert counts == (Delivery.objects.count(), subjects.count(), HostCommand.objects.count())
    project = cloud.network.project_id
    assert services.create_network(project, "other").segmentation_id != cloud.network.segmentation_id


def test_what_a_host_was_sent_and_no_record_knows_is_bounded(
    cloud: Cloud, hosts: tuple[ScriptedAgent, ScriptedAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MOST_UNKNOWN", 2)
    _, other = hosts
    for _ in range(5):
        knew(other, ROUTER, uuid.uuid4(), 3, None)
    documents = [
        Owned(kind, key, generation, digest=other.digests[kind, key], in_use=True)
        for (kind, key), (generation, _) in other.documents.items()
    ]
    audits.compare_documents(other.host.id, documents, complete=False)
    assert Delivery.objects.filter(host_id=other.host.id).count() == 2
    cloud.run()
    assert Delivery.objects.filter(host_id=other.host.id).count() == 0


def test_marks_hold_over_a_rotation_of_keys_and_are_made_anew(
    cloud: Cloud, hosts: tuple[ScriptedAgent, ScriptedAgent], settings: Settings
) -> None:
    mine, _ = hosts
    key = str(cloud.network.id)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = get_random_string(50)
    Delivery.objects.filter(kind=NETWORK).delete()
    Port.objects.filter(host=mine.host.name, device_owner__startswith="compute").update(host="")
    mine.used = {(NETWORK, key)}
    say(mine)
    cloud.run()
    assert known(mine, NETWORK, key) is not None, "it is told what the older key proves"
    settings.SECRET_KEY_FALLBACKS = []
    Delivery.objects.filter(kind=NETWORK).delete()
    say(mine)
    cloud.run()
    assert Delivery.objects.filter(kind=NETWORK, host_id=mine.host.id, kept=True).exists()


def test_a_document_with_a_mark_of_an_older_key_is_reported_again(
    cloud: Cloud, hosts: tuple[ScriptedAgent, ScriptedAgent], settings: Settings
) -> None:
    mine, _ = hosts
    before, many = dict(mine.documents), HostCommand.objects.count()
    say(mine)
    cloud.run()
    assert HostCommand.objects.count() == many
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], get_random_string(50)
    say(mine)
    cloud.run()
    expected = {key: (generation + 1, document) for key, (generation, document) in before.items()}
    assert mine.documents == expected
    jobs.look_over()
    say(mine)
    cloud.run()
    assert mine.documents == expected
    assert documents.of(NETWORK, cloud.network.id)
    assert Network.objects.get(id=cloud.network.id).error == ""
