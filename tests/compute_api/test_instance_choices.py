"""The choices of the filters of instances, read from the instances of a project."""

from __future__ import annotations

import pytest

from provisioning.common.context import RequestContext
from provisioning.compute.selectors import instance_choices
from tests.support.clouds import Cloud, context

pytestmark = pytest.mark.django_db


@pytest.mark.both_databases("sql")
def test_flavors_are_those_of_the_projects_instances_once(cloud: Cloud) -> None:
    alice: RequestContext = context("alice")
    cloud.add_host("one")
    for flavor in ("1", "1", "2"):
        cloud.launch(alice, flavor_ref=flavor)
    cloud.launch(context("bob"), flavor_ref="2")
    assert instance_choices.flavors(alice) == [("2", "m1.big"), ("1", "m1.small")]
    assert instance_choices.flavors(context("charlie")) == []
