"""Evacuations over HTTP: microversions, refusals, and volumes that the host which is down may still have open."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.compute.models import Instance, Migration
from provisioning.hosts.models import Host
from provisioning.volumes.models import Attachment, Volume
from tests.compute_api.conftest import V21, launch, new_volume
from tests.compute_api.test_migrations import act, home, operator_api, other, why
from tests.compute_api.test_volumes import attach, status
from tests.support.cast import Api, People
from tests.support.clouds import Cloud, state_of
from tests.support.scripted_pool import ScriptedPool
from tests.support.standing import standing

pytestmark = pytest.mark.django_db
__all__ = ["operator_api"]


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    """Two hosts that serve one shared pool; the second one has a pool of its own, too."""
    made = Cloud.make()
    shared = ScriptedPool(shared=True)
    made.add_host("h1").serve(shared)
    made.add_host("h2").serve(ScriptedPool(id=shared.id, shared=True, secret=shared.secret))
    return made


@pytest.fixture
@standing
def server(api: Api, cloud: Cloud) -> str:
    return launch(api, cloud)


def dies(server: str, *, forced: bool = False) -> str:
    name = home(server)
    Host.objects.filter(name=name).update(
        last_seen_at=timezone.now() - timedelta(hours=1), connected=False, forced_down=forced
    )
    return name


def work(cloud: Cloud, name: str) -> None:
    every, cloud.agents = cloud.agents, {name: cloud.agents[name]}
    cloud.run()
    cloud.agents = every


def test_refusals(operator_api: Api, server: str) -> None:
    def to(status: int, version: str = "2.67", **body: Any) -> str:
        return why(act(operator_api, server, "evacuate", body, version), status)

    assert to(400, force=True) == "Can't force to a non-provided destination"
    assert to(404, host="nowhere") == "Compute host nowhere not found."
    assert to(400, host=home(server)) == "The target host can't be the same one."
    assert to(400) == f"Compute service of {home(server)} is still in use."
    Instance.objects.update(vm_state="suspended")
    assert "while it is in vm_state suspended" in to(409)


def test_a_member_cannot_evacuate(api: Api, server: str) -> None:
    assert act(api, server, "evacuate", {}).status_code == 403


@pytest.mark.parametrize(("version", "ends"), [("2.94", "active"), ("2.95", "stopped")])
def test_from_2_95_on_the_server_is_stopped_afterwards(
    operator_api: Api, cloud: Cloud, server: str, version: str, ends: str
) -> None:
    target = other(server)
    dies(server)
    assert act(operator_api, server, "evacuate", {"host": target}, version).content == b""
    shown = operator_api.get(f"{V21}/servers/{server}").json()["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("REBUILD", "evacuating")
    work(cloud, target)
    assert (state_of(Instance.objects.get(id=server)), home(server)) == ((ends, None), target)


def test_the_password_is_shown_until_2_13(operator_api: Api, server: str) -> None:
    dies(server)
    answer = act(operator_api, server, "evacuate", {"onSharedStorage": False, "adminPass": "s3cret"}, "2.13")
    assert answer.json() == {"adminPass": "s3cret"}


def test_volumes_come_back_with_the_server(
    api: Api, operator_api: Api, cloud: Cloud, people: People, server: str
) -> None:
    volume = new_volume(people, cloud)
    attach(api, server, volume)
    cloud.run()
    source, target = dies(server), other(server)
    message = why(act(operator_api, server, "evacuate", {}), 409)
    assert f"host {source} may still have open" in message
    assert status(volume) == "in-use"
    Host.objects.filter(name=source).update(forced_down=True)
    assert act(operator_api, server, "evacuate", {}, "2.94").status_code == 200
    work(cloud, target)
    attachment = Attachment.objects.get()
    assert (state_of(Instance.objects.get(id=server)), home(server)) == (("active", None), target)
    assert (status(volume), attachment.host.name if attachment.host else "") == ("in-use", target)
    assert Volume.objects.get().daemon_host == cloud.agents[target].host
    Host.objects.filter(name=source).update(forced_down=False)
    cloud.agents[source].hello()
    cloud.run()
    assert cloud.agents[source].guests == {}
    assert all(not pool.clients for pool in cloud.agents[source].pools.values())
    assert Migration.objects.get().status == "completed"


def test_a_volume_on_the_host_that_is_down_stops_the_evacuation(
    api: Api, operator_api: Api, cloud: Cloud, people: People, server: str
) -> None:
    volume = new_volume(people, cloud)
    attach(api, server, volume)
    cloud.run()
    source = dies(server, forced=True)
    pool = volume.pool
    assert pool is not None
    pool.servings.exclude(host__name=source).delete()
    type(pool).objects.update(shared=False)
    message = why(act(operator_api, server, "evacuate", {}), 400)
    assert message == f"Volume {volume.id} is stored on host {source} only."
    assert (state_of(Instance.objects.get(id=server)), status(volume)) == (("active", None), "in-use")
