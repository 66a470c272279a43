"""Every decision is kept: of each attempt, of an unshelving and of a resize, with all that explains it."""

from __future__ import annotations

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from compute_agent.contract.messages import ResourceAudit
from provisioning.common.context import RequestContext
from provisioning.compute.actions.resize import resize as resize_server
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.models import Instance, SchedulingDecision
from provisioning.compute.services import aggregates
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from provisioning.hosts import audits
from provisioning.hosts.models import CachedImage, Host
from tests.support.clouds import Cloud, context, next_request, state_of
from tests.support.jobs import drain

pytestmark = pytest.mark.both_databases


def decisions(server: Instance) -> list[SchedulingDecision]:
    return list(SchedulingDecision.objects.filter(instance=server).order_by("id"))


def test_what_a_decision_says(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=2048)
    cloud.add_host("ohm", memory_mb=8192)
    cloud.add_host("tiny", memory_mb=512)
    server = cloud.launch(alice, availability_zone="nova")
    cloud.run()
    [row] = decisions(server)
    assert (row.action, row.attempt, row.host_name, row.driver) == ("create", 1, "ohm", "filter")
    requested = {"vcpus": 1, "memory_mb": 1024, "disk_gb": 2, "flavor": "m1.small", "availability_zone": "nova"}
    assert row.asked == requested
    by_name = {result["name"]: result for result in row.filters}
    memory = by_name["RamFilter"]
    assert (memory["before"], memory["after"]) == (3, 2)
    assert (memory["asked"], memory["most"], memory["unit"]) == (1024, 8192, "MiB")
    assert memory["seconds"] >= 0
    assert by_name["DiskFilter"]["reason"] == ""
    assert row.losses == {"RamFilter": ["tiny"]}
    assert [item["host"] for item in row.weights] == ["ohm", "kelvin"]
    assert row.weights[0]["weight"] == pytest.approx(sum(row.weights[0]["parts"].values()), abs=0.001)
    assert row.weights[0]["parts"]["RAMWeigher"] == 1
    assert 0 < row.read_seconds < row.seconds


def test_no_host_is_named_in_what_was_asked(cloud: Cloud, operator: RequestContext) -> None:
    cloud.add_host("kelvin")
    cloud.add_host("ohm")
    server = cloud.launch(operator, host="kelvin", scheduler_hints={"ignore_hosts": ["ohm"]})
    cloud.run()
    [row] = decisions(server)
    assert row.host_name == "kelvin"
    assert row.asked["hints"] == ["ignore_hosts"]
    assert "kelvin" not in str(row.asked)
    assert "ohm" not in str(row.asked)


def test_each_attempt_has_its_own(cloud: Cloud, alice: RequestContext) -> None:
    kelvin = cloud.add_host("kelvin")
    cloud.add_host("ohm", memory_mb=2048)
    server = cloud.launch(alice)
    drain()
    (command,) = kelvin.take()
    kelvin.fail(command, "The hypervisor does not answer.", retryable=True)
    cloud.run()
    assert state_of(server) == ("active", None)
    first, second = decisions(server)
    assert [(row.attempt, row.host_name) for row in (first, second)] == [(1, "kelvin"), (2, "ohm")]
    assert second.losses["RetryFilter"] == ["kelvin"]
    assert second.asked["tried_before"] == 1


@pytest.mark.slow
def test_a_failed_one_says_what_would_fit(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    """Of the smaller sizes that the project sees, the largest that fits is named, with how often."""
    create_flavor(operator, FlavorRequest("m1.secret", 2, 3072, 2, flavorid="3", is_public=False))
    create_flavor(operator, FlavorRequest("m1.middle", 1, 2048, 2, flavorid="4"))
    create_flavor(operator, FlavorRequest("m1.wide", 1, 1024, 40, flavorid="5"))
    cloud.add_host("kelvin", memory_mb=3500)
    first = cloud.launch(alice, flavor_ref="2")
    cloud.run()
    message = first.faults.get().message
    assert message.endswith("m1.middle would fit once.")
    assert "kelvin" not in message
    cloud.launch(context("alice"), flavor_ref="4")
    cloud.run()
    second = cloud.launch(context("alice"), flavor_ref="2")
    cloud.run()
    assert second.faults.get().message.endswith("m1.small would fit once.")
    [row] = decisions(second)
    assert (row.host_name, row.filters[-1]["name"], row.filters[-1]["after"]) == ("", "RamFilter", 0)


def test_a_failure_for_another_reason_speaks_of_no_size(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    Host.objects.update(enabled=False)
    server = cloud.launch(alice, flavor_ref="2")
    cloud.run()
    assert "would fit" not in server.faults.get().message


@pytest.mark.slow
def test_an_unshelving_is_a_decision_too(
    cloud: Cloud, alice: RequestContext, operator: RequestContext, settings: Settings
) -> None:
    settings.SHELVED_OFFLOAD_TIME = 0
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    Shelve.begin(next_request(alice), server.id)
    cloud.run()
    unshelve(next_request(alice), server.id)
    cloud.run()
    assert state_of(server) == ("active", None)
    assert [(row.action, row.host_name) for row in decisions(server)] == [("create", "kelvin"), ("unshelve", "kelvin")]


def test_a_resize_is_a_decision_on_its_own_host(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=5000, vcpus=4)
    server = cloud.launch(alice)
    cloud.run()
    resize_server(context("alice"), server.id, "2")
    launch, resize = decisions(server)
    assert (launch.action, resize.action, resize.host_name) == ("create", "resize", "kelvin")
    assert resize.asked["flavor"] == "m1.big"
    by_name = {result["name"]: result for result in resize.filters}
    assert (by_name["CoreFilter"]["before"], by_name["CoreFilter"]["after"]) == (1, 1)
    cloud.run()


def test_a_refused_resize_says_what_there_is(cloud: Cloud, alice: RequestContext) -> None:
    """Its own room counts as free, since the larger size would take its place."""
    cloud.add_host("kelvin", memory_mb=4000)
    server = cloud.launch(alice)
    cloud.run()
    resize_server(context("alice"), server.id, "2")
    _, resize = decisions(server)
    last = resize.filters[-1]
    assert (resize.host_name, last["name"], last["asked"], last["most"]) == ("", "RamFilter", 4096, 4000)
    assert resize.losses == {"RamFilter": ["kelvin"]}


def test_a_smaller_size_is_taken_on_a_disabled_host(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    create_flavor(operator, FlavorRequest("m1.less", 1, 512, 2, flavorid="3"))
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    Host.objects.update(enabled=False)
    resize_server(context("alice"), server.id, "3")
    assert state_of(server) == ("active", "resize_migrating")
    Host.objects.update(enabled=True)
    cloud.run()


@pytest.mark.parametrize("driver", ["chance", "simple", "availability-zone"])
def test_the_driver_is_named(cloud: Cloud, alice: RequestContext, settings: Settings, driver: str) -> None:
    settings.SCHEDULER_DRIVER = driver
    settings.SCHEDULER_DEFAULT_ZONE = "nova"
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    assert state_of(server) == ("active", None)
    assert [row.driver for row in decisions(server)] == [driver]
    resize_server(context("alice"), server.id, "2")
    assert decisions(server)[-1].host_name == "kelvin"
    cloud.run()


# ----- what the request is made of ------------------------------------------------------------------------------------


def test_capabilities_of_the_flavor_are_asked_of_the_host(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    requested = {"capabilities:cpu_info:vendor": "AMD", "colour": "red", "hypervisor_type": "fake"}
    create_flavor(operator, FlavorRequest("m1.amd", 1, 512, 2, flavorid="3", extra_specs=requested))
    kelvin = cloud.add_host("kelvin").host
    first = cloud.launch(alice, flavor_ref="3")
    cloud.run()
    assert state_of(first) == ("error", None)
    assert decisions(first)[0].filters[-1]["name"] == "ComputeCapabilitiesFilter"
    Host.objects.filter(id=kelvin.id).update(cpu_info={"vendor": "AMD"})
    second = cloud.launch(context("alice"), flavor_ref="3")
    cloud.run()
    assert state_of(second) == ("active", None)


def test_the_image_says_what_hypervisor_it_is_made_for(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    cloud.image.properties = {"img_hv_type": "xen"}
    cloud.image.save(update_fields=["properties"])
    server = cloud.launch(alice)
    cloud.run()
    [row] = decisions(server)
    assert (row.host_name, row.asked["hypervisor_type"]) == ("", "xen")


def test_a_query_is_obeyed(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=2048)
    cloud.add_host("ohm", memory_mb=8192)
    server = cloud.launch(alice, scheduler_hints={"query": '["<", "$free_ram_mb", 4096]'})
    cloud.run()
    assert decisions(server)[0].host_name == "kelvin"


def test_a_host_that_has_the_image_is_preferred(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    for name in ("kelvin", "ohm", "tesla", "volta"):
        cloud.add_host(name)
    audits.audit(
        cloud.agents["tesla"].host.id,
        _with_images(cloud, "tesla", str(cloud.image.id)),
    )
    server = cloud.launch(alice)
    cloud.run()
    [row] = decisions(server)
    assert row.host_name == "tesla"
    assert row.weights[0]["parts"].keys() == {"ImageCachedWeigher"}


# ----- what a host has in its cache -----------------------------------------------------------------------------------


def _with_images(cloud: Cloud, name: str, *images: str) -> ResourceAudit:
    return msgspec.structs.replace(cloud.agents[name].audit(8, 8192, 100), cached_images=list(images))


@pytest.mark.both_databases("constraints")
def test_only_what_differs_is_written_at_an_audit(cloud: Cloud) -> None:
    host = cloud.add_host("kelvin").host
    first, second, third = (f"0000000{number}-0000-4000-8000-000000000000" for number in range(3))

    def audit(*images: str) -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            audits.audit(host.id, _with_images(cloud, "kelvin", *images))
        return [query["sql"] for query in queries if CachedImage._meta.db_table in query["sql"]]

    def kept() -> set[str]:
        return {str(image) for image in CachedImage.objects.values_list("image_id", flat=True)}

    assert len(audit(first, second, "no-id", first)) == 2
    assert kept() == {first, second}
    assert [sql.split()[0] for sql in audit(second, first)] == ["SELECT"]
    ids = set(CachedImage.objects.filter(image_id=second).values_list("id", flat=True))
    audit(second, third)
    assert kept() == {second, third}
    assert set(CachedImage.objects.filter(image_id=second).values_list("id", flat=True)) == ids
    audit()
    assert kept() == set()


def test_an_audit_of_a_forgotten_host_writes_nothing(cloud: Cloud) -> None:
    host = cloud.add_host("kelvin").host
    report = _with_images(cloud, "kelvin", "00000000-0000-4000-8000-000000000000")
    Host.objects.all().delete()
    audits.audit(host.id, report)
    assert not CachedImage.objects.exists()


def test_aggregates_that_a_size_asks_for(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    """What an aggregate says is looked at beside its ratios."""
    specs = {"aggregate_instance_extra_specs:ssd": "true"}
    create_flavor(operator, FlavorRequest("m1.ssd", 1, 512, 2, flavorid="3", extra_specs=specs))
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    made = aggregates.create_aggregate(operator, "fast")
    aggregates.set_aggregate_metadata(operator, made.pk, {"ssd": "true", "cpu_allocation_ratio": "2"})
    aggregates.add_host(operator, made.pk, "ohm")
    server = cloud.launch(alice, flavor_ref="3")
    cloud.run()
    assert decisions(server)[0].host_name == "ohm"
