"""Processors of hosts and running guests: what is recorded, what a move needs, and the baseline of new guests."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from compute_agent.contract.commands import BuildRequest
from compute_agent.contract.cpu import Cpu, RunningCpu
from compute_agent.contract.messages import decode_command_body
from provisioning.common.context import RequestContext
from provisioning.compute.launch.decisions import rank_hosts
from provisioning.compute.models import Aggregate, AggregateHost, Instance
from provisioning.compute.moves.cpu import cpu_of, with_cpu
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.cpus.models import GuestProcessor, Processor
from provisioning.cpus.selectors import offered_by
from provisioning.hosts.commands import opened
from provisioning.hosts.models import Host, HostCommand
from provisioning.scheduler.cpu import lacking
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db

OLD, NEW = Cpu("Haswell", "Intel", ["aes", "avx2"]), Cpu("Skylake", "Intel", ["aes", "avx2", "avx512f", "pku"])
AMD = Cpu("EPYC", "AMD", ["aes", "avx2", "avx512f", "pku", "svm"])


@pytest.fixture
def server(cloud: Cloud, alice: RequestContext) -> Instance:
    """A server on the host ``new``, which has the newer processor; ``old`` is disabled."""
    cloud.add_host("new").measured(guest_cpu=NEW)
    cloud.add_host("old").measured(guest_cpu=OLD)
    Host.objects.filter(name="old").update(enabled=False)
    server = cloud.running(alice)
    Host.objects.update(enabled=True)
    return cloud.fresh(server)


def host(name: str) -> Host:
    return Host.objects.get(name=name)


def missing_features(server: Instance, host: Host) -> list[str]:
    return lacking(cpu_of(server), offered_by(host))


def says(agent: ScriptedAgent, cpu: Cpu, *servers: uuid.UUID) -> None:
    agent.measured(guest_cpu=NEW, cpus=[RunningCpu(cpu, [str(each) for each in servers])])


def test_a_guest_needs_what_it_was_started_with(cloud: Cloud, server: Instance) -> None:
    assert missing_features(server, host("old")) == ["avx512f", "pku"]  # not reported yet: all that its host offers
    says(cloud.agents["new"], OLD, server.id)
    assert missing_features(server, host("old")) == []
    says(cloud.agents["new"], NEW, server.id)
    assert missing_features(server, host("old")) == ["avx512f", "pku"]
    assert missing_features(server, host("new")) == []
    cloud.agents["old"].measured(guest_cpu=AMD)
    assert missing_features(server, host("old")) == ["a CPU of Intel"]


def test_the_scheduler_names_what_a_host_lacks(cloud: Cloud, server: Instance) -> None:
    spec = with_cpu(spec_of(server, excluded=[host("new").id]), server)
    decision = rank_hosts(spec).decision
    assert decision.losses["CpuFeaturesFilter"] == ("old",)
    [result] = [each for each in decision.filters if each.name == "CpuFeaturesFilter"]
    assert result.reason == "1 host does not have avx512f, pku"
    cloud.agents["old"].measured(guest_cpu=NEW)
    assert rank_hosts(spec).decision.ranked


def test_hosts_that_report_nothing_are_left_to_the_hypervisor(cloud: Cloud, server: Instance) -> None:
    cloud.agents["old"].measured()
    assert missing_features(server, host("old")) == []
    assert rank_hosts(with_cpu(spec_of(server, excluded=[host("new").id]), server)).decision.ranked


@pytest.mark.both_databases("constraints")
def test_guests_with_the_same_processor_share_a_row(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    Host.objects.filter(name="old").update(enabled=False)
    other = cloud.running(alice, name="other")
    agent = cloud.agents["new"]
    says(agent, NEW, server.id, other.id)
    assert (GuestProcessor.objects.count(), Processor.objects.count()) == (2, 1)
    says(agent, OLD, server.id, other.id)
    assert (GuestProcessor.objects.count(), Processor.objects.get().model) == (2, "Haswell")
    says(agent, OLD, other.id)
    assert GuestProcessor.objects.get().instance_id == other.id
    says(agent, OLD)
    assert (GuestProcessor.objects.count(), Processor.objects.count()) == (0, 0)


def test_a_host_reports_only_its_own_guests_and_plausible_names(cloud: Cloud, server: Instance) -> None:
    says(cloud.agents["old"], AMD, server.id, uuid.uuid4())
    assert not GuestProcessor.objects.exists()
    lies = Cpu("<b>", "x" * 99, ["aes", "a,b", "", "y" * 99, *(f"f{number}" for number in range(3000))])
    cloud.agents["new"].measured(guest_cpu=lies, cpus=[RunningCpu(lies, [str(server.id), "not an id"])])
    features = cpu_of(server).features
    assert "aes" in features
    assert len(features) < 1000
    assert not features & {"a,b", "", "y" * 99}
    assert Processor.objects.get().model == ""


@pytest.mark.parametrize(
    ("baseline", "expected"), [("host", None), ("zone", ["aes", "avx2", "avx512f", "pku"]), ("cloud", ["aes", "avx2"])]
)
def test_new_guests_get_the_baseline(
    cloud: Cloud, alice: RequestContext, settings: Any, baseline: str, expected: list[str] | None
) -> None:
    settings.CPU_BASELINE = baseline
    cloud.add_host("new").measured(guest_cpu=NEW)
    cloud.add_host("amd").measured(guest_cpu=AMD)
    cloud.add_host("old", zone="east").measured(guest_cpu=OLD)
    cloud.add_host("silent")
    Host.objects.exclude(name="new").update(enabled=False)
    assert features_of_new_guest(cloud, alice) == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({"cpu_baseline": "true"}, ["aes", "avx2", "avx512f", "pku"]), ({"cpu_baseline": "false"}, None), ({}, None)],
)
def test_hosts_of_a_marked_aggregate_share_a_baseline(
    cloud: Cloud, alice: RequestContext, settings: Any, metadata: dict[str, str], expected: list[str] | None
) -> None:
    settings.CPU_BASELINE = "aggregate"
    cloud.add_host("new").measured(guest_cpu=NEW)
    cloud.add_host("amd", zone="west").measured(guest_cpu=AMD)
    cloud.add_host("old").measured(guest_cpu=OLD)
    Host.objects.exclude(name="new").update(enabled=False)
    aggregate = Aggregate.objects.create(name="mixed", metadata=metadata)
    for name in ("new", "amd"):
        AggregateHost.objects.create(aggregate=aggregate, host=host(name))
    assert features_of_new_guest(cloud, alice) == expected


def features_of_new_guest(cloud: Cloud, alice: RequestContext) -> list[str] | None:
    server = cloud.launch(alice)
    drain()
    command = HostCommand.objects.get(subject_id=server.id, kind="build_request")
    body = opened(decode_command_body(command.body))
    assert isinstance(body, BuildRequest)
    return body.instance.cpu_features
