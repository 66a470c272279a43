"""The scheduler's decisions in the admin: found, listed, drawn with the hosts, and never changed."""

from __future__ import annotations

import pytest
from django.test import Client

from provisioning.compute.models import Instance, SchedulingDecision
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.standing import standing

LIST = "/admin/compute/schedulingdecision/"


@pytest.fixture
@standing
def web(cloud: Cloud, alice: Person) -> Instance:
    cloud.add_host("tiny", memory_mb=512)
    instance = cloud.launch(alice.context, name="web")
    cloud.launch(alice.context, name="other", flavor_ref="2", availability_zone="nova")
    cloud.run()
    return instance


@pytest.mark.slow
def test_the_list_says_where_and_of_how_many(admin: Client, web: Instance) -> None:
    page = admin.get(LIST).content.decode()
    assert "2 → 1" in page
    assert admin.get(f"{LIST}?q=web").context["cl"].result_count == 1
    assert admin.get(f"{LIST}?q={web.id}").context["cl"].result_count == 1
    assert admin.get(f"{LIST}?q=nobody").context["cl"].result_count == 0


def test_one_is_drawn_with_its_hosts(admin: Client, web: Instance, cloud: Cloud) -> None:
    decision = SchedulingDecision.objects.get(instance=web)
    page = admin.get(f"{LIST}{decision.pk}/change/").content.decode()
    assert 'class="sieve"' in page
    assert "css/decisions.css" in page
    assert f"chosen: <bdi>{decision.host_name}</bdi>" in page
    assert "without <bdi>tiny</bdi>" in page


def test_an_instance_leads_to_its_own(admin: Client, web: Instance) -> None:
    page = admin.get(f"/admin/compute/instance/{web.id}/change/").content.decode()
    address = f"{LIST}?instance__id__exact={web.id}"
    assert address in page
    assert "1 scheduling decision<" in page
    assert admin.get(address).context["cl"].result_count == 1


def test_nothing_is_changed_here(admin: Client, web: Instance) -> None:
    decision = SchedulingDecision.objects.get(instance=web)
    for path in (f"{LIST}add/", f"{LIST}{decision.pk}/delete/"):
        assert admin.get(path).status_code == 403
    assert admin.post(f"{LIST}{decision.pk}/change/", {"attempt": 9}).status_code == 403


def test_the_list_costs_the_same_however_long_it_is(
    admin: Client, web: Instance, django_assert_max_num_queries: object
) -> None:
    for attempt in range(2, 30):
        SchedulingDecision.objects.create(instance=web, attempt=attempt, filters=[], seconds=0.001)
    with django_assert_max_num_queries(14):  # type: ignore[operator]
        admin.get(LIST)
