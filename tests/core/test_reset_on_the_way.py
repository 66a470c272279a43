"""A state that is set by hand while a server is on its way to a host."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.shelve import Offload, Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.launch import claim
from provisioning.compute.launch.builds import waiting_build
from provisioning.compute.models import Allocation, Instance, InstanceAction
from provisioning.network.models import Port
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain

pytestmark = pytest.mark.django_db


def claimed(instance: Instance) -> None:
    """A worker that dies between the claim of a place and the order to the host."""
    build = waiting_build(instance.id, Instance.objects.get(id=instance.id).attempt)
    assert build is not None
    assert claim.find_place(build) is not None


def reset(instance: Instance, to: Any) -> None:
    ResetState.begin(context("operator", ADMIN), instance.id, to)


@pytest.mark.parametrize("when", ["scheduling", "networking", "spawning"])
def test_a_launch_that_is_set_in_error_holds_its_quota_and_no_place_it_never_got(
    cloud: Cloud, alice: RequestContext, when: str
) -> None:
    host = cloud.add_host("kelvin")
    server = cloud.launch(alice)
    if when == "networking":
        claimed(server)
    elif when == "spawning":
        drain()
    assert state_of(server) == ("building", when)
    reset(server, "error")
    assert state_of(server) == ("error", None)
    invariants.check()
    assert Allocation.objects.exists() == (when == "spawning")
    assert not InstanceAction.objects.filter(finished_at=None).exists()
    cloud.run()
    assert state_of(server) == ("error", None)
    delete(context("alice"), server.id)
    cloud.run()
    invariants.check_empty()
    assert host.guests == {}


def test_a_launch_that_has_only_a_place_cannot_be_set_to_active(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    claimed(server)
    with pytest.raises(ConflictError, match="has no host"):
        reset(server, "active")
    cloud.run()
    assert state_of(server) == ("active", None)


@pytest.mark.slow
def test_one_that_is_taken_off_its_host_goes_from_there_though_it_is_set_in_error(
    cloud: Cloud, alice: RequestContext, settings: Any
) -> None:
    """The order to remove it may be under way: its place is free when the host says so, and it is on no host."""
    settings.SHELVED_OFFLOAD_TIME = -1
    host = cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    Shelve.begin(context("alice"), server.id)
    cloud.run()
    Offload.begin(context("operator", ADMIN), server.id)
    with pytest.raises(ConflictError, match="has no host"):
        reset(server, "active")
    reset(server, "error")
    invariants.check()
    cloud.run()
    assert state_of(server) == ("error", None)
    assert cloud.fresh(server).host is None
    assert not Allocation.objects.exists()
    assert host.guests == {}
    assert Port.objects.filter(device_id=server.id).count() == 1, "it keeps what a shelved server has"
    invariants.check()
    delete(context("alice"), server.id)
    invariants.check_empty()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["waiting", "claimed", "spawning"])
def test_an_unshelving_that_is_set_in_error_keeps_its_ports_and_its_image(
    cloud: Cloud, alice: RequestContext, settings: Any, when: str
) -> None:
    settings.SHELVED_OFFLOAD_TIME = 0
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    Shelve.begin(context("alice"), server.id)
    cloud.run()
    unshelve(context("alice"), server.id)
    if when == "claimed":
        claimed(server)
    elif when == "spawning":
        drain()
    reset(server, "error")
    invariants.check()
    assert Allocation.objects.exists() == (when == "spawning")
    assert cloud.fresh(server).snapshot_image_id is not None
    cloud.run()
    delete(context("alice"), server.id)
    cloud.run()
    invariants.check_empty()
