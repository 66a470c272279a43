"""A cloud from before: what there is counts from the first day on."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps

from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.network import services as network
from provisioning.quotas import drift
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.selectors import detail_of
from provisioning.quotas.services.repair import repair
from tests.support.clouds import Cloud, context

pytestmark = pytest.mark.django_db
COUNTED_BEFORE = ("instances", "cores", "ram")


def test_what_there_was_is_counted() -> None:
    alice, cloud = context("alice"), Cloud.make()
    assert alice.project_id is not None
    cloud.add_host("kelvin")
    cloud.launch(alice)
    cloud.run()
    cloud.launch(alice)
    network.create_port(alice.project_id, cloud.network)
    create_key_pair(alice, "laptop")
    before = detail_of(alice.project_id)
    assert before["ports"] == (500, 2, 1)
    for model in (Reservation, QuotaUsage):
        model.objects.exclude(resource__in=COUNTED_BEFORE).delete()
    assert len(drift.find()) > 5
    count = import_module("provisioning.compute.migrations.0002_count_what_there_is").count
    for _ in range(2):
        count(apps, None)
        assert [str(found) for found in drift.find()] == []
        assert detail_of(alice.project_id) == before
    assert repair() == []
