"""``POST /novella-would-fit`` of the Block Storage API, and ``manage.py storage_pools``."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from provisioning.volumes.models import StoragePool, Volume
from provisioning.volumes.services.catalogue.types import create_type
from tests.support.cast import Api
from tests.support.clouds import Cloud
from tests.volume_api.conftest import V3

pytestmark = pytest.mark.django_db
WHERE = f"{V3}/novella-would-fit"


@pytest.fixture(autouse=True)
def cloud(db: None) -> Cloud:
    cloud = Cloud.make()
    for name in ("kelvin", "small"):
        cloud.add_host(name).serve()
    StoragePool.objects.filter(hosts__name="kelvin").update(name="big")
    StoragePool.objects.filter(hosts__name="small").update(name="tiny", total_gb=1, free_gb=1)
    return cloud


def ask(api: Api, **values: Any) -> dict[str, Any]:
    answer = api.post(WHERE, {"would_fit": {"size": 50, **values}})
    assert answer.status_code == 200, answer.content
    return dict(answer.json()["would_fit"])


def test_members_learn_whether_and_why_and_operators_where(api: Api, operator_api: Api) -> None:
    answer = ask(api)
    assert (answer["fits"], answer["sentence"]) == (40, "2 storage pools → 1 has the space.")
    assert "pools" not in answer
    full = ask(operator_api)
    assert full["pools"] == [{"pool": "big", "volumes": 40, "room": 2000}]
    assert full["losses"] == {"CapacityFilter": ["tiny"]}
    create_type("quick", extra_specs={"driver": "rbd"})
    none = ask(api, volume_type="quick")
    assert none["fits"] == 0
    assert [(each["name"], each["before"], each["after"]) for each in none["filters"]][-1] == (
        "CapabilitiesFilter", 2, 0,
    )  # fmt: skip
    assert ask(api, size=1)["fits"] == 100, "no more than this is told"
    assert not Volume.objects.exists()


def test_nonsense_is_refused(api: Api) -> None:
    for wrong in ({"size": 0}, {"size": "x"}, {"size": 1, "host": "a"}, {"size": 1, "os:scheduler_hints": []}, {}):
        assert api.post(WHERE, {"would_fit": wrong}).status_code == 400, wrong
    for wrong in ({"volume_type": "none"}, {"os:scheduler_hints": {"same_host": "x"}}):
        assert api.post(WHERE, {"would_fit": {"size": 1, **wrong}}).status_code in {400, 404}, wrong


def call(*args: str) -> str:
    out = io.StringIO()
    call_command("storage_pools", *args, stdout=out)
    return out.getvalue()


def test_pools_are_listed_changed_and_asked_on_a_terminal() -> None:
    assert "kelvin@fake#big" in call()
    rows = json.loads(call("big", "--disable", "new disks", "--reserved", "10", "--over-subscription", "2", "--json"))
    assert {row["pool"]: (row["state"], row["of"]) for row in rows} == {
        "kelvin@fake#big": ("disabled: new disks", 180),
        "small@fake#tiny": ("in service", 20),
    }
    assert "0 such volumes would fit" in call("--would-fit", "50")
    call("kelvin@fake", "--enable", "--freeze")
    pool = StoragePool.objects.get(name="big")
    assert (pool.enabled, pool.frozen) == (True, True)
    call(str(pool.id), "--thaw")
    assert json.loads(call("--would-fit", "10", "--json"))["pools"][0] == {"pool": "big", "volumes": 18, "room": 180}
    for wrong in (["nothing"], ["big", "--reserved", "101"], ["big", "--forget"], ["--would-fit", "0"]):
        with pytest.raises(CommandError):
            call(*wrong)
