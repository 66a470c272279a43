"""What hosts say of themselves is kept, shown to operators and found by the doctor."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compute_agent.contract.messages import Repair
from provisioning.doctor.checks.hosts import host_warnings
from provisioning.hosts import audits
from provisioning.hosts.models import Host
from tests.support.clouds import Cloud

LACKS = "This host's kernel does not filter bridges."


@pytest.mark.django_db
def test_an_operator_sees_what_a_host_lacks_until_it_is_there(cloud: Cloud) -> None:
    agent = cloud.add_host("one")
    report = agent.audit(1, 1, 1)
    audits.audit(agent.host.id, replace(report, warnings=[LACKS], repairs=[Repair(at=1, what="network: DHCP\nof n")]))
    (result,) = host_warnings()
    assert (result.severity, result.subject, result.sentence) == ("warning", "host one", LACKS)
    assert Host.objects.get().repairs == [{"at": 1, "what": "network: DHCP of n"}]
    audits.audit(agent.host.id, report)
    assert list(host_warnings()), "an agent that does not say changes nothing"
    audits.audit(agent.host.id, replace(report, warnings=[]))
    assert list(host_warnings()) == []


@pytest.mark.django_db
def test_a_host_says_no_more_than_there_is_room_for(cloud: Cloud) -> None:
    agent = cloud.add_host("one")
    repairs = [Repair(at=-5, what="x" * 10_000)] * 100
    audits.audit(agent.host.id, replace(agent.audit(1, 1, 1), warnings=["y" * 10_000] * 100, repairs=repairs))
    host = Host.objects.get()
    assert (len(host.warnings), len(host.warnings[0])) == (audits.MOST_WARNINGS, 500)
    assert (len(host.repairs), len(host.repairs[0]["what"]), host.repairs[0]["at"]) == (20, 255, 0)
    audits.audit(agent.host.id, replace(agent.audit(1, 1, 1), warnings=[]))
