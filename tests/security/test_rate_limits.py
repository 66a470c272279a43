"""Limits of requests: refused in each service's shape, for a person and a project, by all web processes together."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from portal.api.compute.dialect import MICROVERSIONS
from portal.api.openapi.document import make_document
from portal.common.http import rate_limits
from provisioning.common import environment
from provisioning.common.errors import TooManyRequestsError
from provisioning.common.machine.machine_cache import MachineCache
from provisioning.compute.models import Instance
from provisioning.identity.lockout import throttle
from tests.identity.bodies import by_password
from tests.support.cast import Api, People, Person, sign_in_browser
from tests.support.clouds import Cloud
from tests.support.standing import standing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static"), pytest.mark.slow]
V21 = "/compute/v2.1"
HOUR = 3600
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    return Cloud.make()


def limit(**numbers: int) -> None:
    django_settings.RATE_LIMITS = {kind: (number, HOUR) for kind, number in numbers.items()}


@pytest.fixture(autouse=True)
def _as_before(settings: Any) -> None:
    settings.RATE_LIMITS = {}
    caches[rate_limits.CACHE].clear()


def body(cloud: Cloud, **more: Any) -> dict[str, Any]:
    return {"server": {"name": "web", "imageRef": str(cloud.image.id), "flavorRef": "1", "networks": "none"} | more}


def launch(cloud: Cloud, person: Person, **more: Any) -> Any:
    return Api(person, **{"openstack-api-version": "compute 2.96"}).post(f"{V21}/servers", body(cloud, **more))


def test_too_many_launches_are_refused_as_nova_does(people: People, cloud: Cloud) -> None:
    limit(launches=3)
    assert launch(cloud, people.alice, max_count=2).status_code == 202
    assert launch(cloud, people.alice, max_count=2).status_code == 429, "each server counts"
    assert launch(cloud, people.alice).status_code == 202
    answer = launch(cloud, people.alice)
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= HOUR
    fault = answer.json()["overLimit"]
    assert (fault["code"], fault["retryAfter"]) == (429, answer["Retry-After"])
    assert Instance.objects.count() == 3
    assert Api(people.alice).get(f"{V21}/servers").status_code == 200, "reading is not counted"


LIMITED = (
    ("POST", "/compute/v2.1/servers"),
    ("GET", "/compute/v2.1/servers"),
    ("GET", "/compute/v2.1/servers/detail"),
    ("POST", "/compute/v2.1/novella-would-fit"),
    ("DELETE", "/compute/v2.1/servers/{server_id}"),
    ("PATCH", "/image/v2/images/{image_id}"),
    ("POST", "/identity/v3/auth/tokens"),
    ("POST", "/identity/v2.0/tokens"),
    ("POST", "/identity/v3/users/{user_id}/password"),
)


@pytest.mark.parametrize(("method", "path"), LIMITED)
def test_the_openapi_document_tells_of_the_refusal(people: People, cloud: Cloud, method: str, path: str) -> None:
    limit(launches=1, writes=1, searches=1, dry_runs=1)
    for kind in django_settings.RATE_LIMITS:
        rate_limits.check(people.alice.context, kind)
    for number in range(throttle.FREE_OF_ADDRESS):
        with throttle.Attempt(f"name {number}", "127.0.0.1"):
            pass
    signs_in = path.startswith("/identity")
    bodies = {
        "/identity/v3/auth/tokens": by_password(people.alice),
        "/identity/v2.0/tokens": {"auth": {"passwordCredentials": {"username": "alice", "password": "x"}}},
        "/identity/v3/users/{user_id}/password": {
            "user": {"original_password": "x", "password": "another long sentence"}
        },
        "/compute/v2.1/servers": body(cloud),
    }
    api = Api(None if signs_in else people.alice, **{"openstack-api-version": "compute 2.96"})
    address = re.sub(r"\{\w+\}", people.alice.user_id.hex, path) + ("?name=web" if method == "GET" else "")
    answer = getattr(api, method.lower())(address, *([bodies.get(path, {})] if method in {"POST", "PATCH"} else []))
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert "429" in make_document(MICROVERSIONS.maximum)["paths"][path][method.lower()]["responses"]


def test_changes_have_a_budget_for_the_day_too(people: People, settings: Any) -> None:
    settings.RATE_LIMITS = {"writes": (100, 1), "daily_writes": (3, HOUR)}
    for _ in range(3):
        rate_limits.check(people.alice.context, "writes")
    with pytest.raises(TooManyRequestsError) as refused:
        rate_limits.check(people.alice.context, "writes")
    assert refused.value.retry_after > 1, "the limit of a second is not the one that was reached"
    rate_limits.check(people.bob.context, "writes")
    settings.RATE_LIMITS = {"writes": (100, 1), "daily_writes": (0, 1)}
    rate_limits.check(people.alice.context, "writes")


def test_launches_have_a_budget_for_the_day_too(people: People, settings: Any) -> None:
    settings.RATE_LIMITS = {"launches": (100, 1), "daily_launches": (3, HOUR)}
    rate_limits.check(people.alice.context, "launches", 3)
    with pytest.raises(TooManyRequestsError) as refused:
        rate_limits.check(people.alice.context, "launches")
    assert refused.value.retry_after > 1


def test_one_person_does_not_use_up_the_project(people: People, cloud: Cloud) -> None:
    limit(launches=1)
    assert [launch(cloud, people.alice).status_code for _ in range(2)] == [202, 429]
    rate_limits.check(people.bob.context, "launches")
    assert launch(cloud, people.charlie).status_code == 202


def test_a_project_has_a_limit_for_all_its_people(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(writes=2)
    monkeypatch.setattr(rate_limits, "PROJECT_SHARE", 1)
    for _ in range(2):
        rate_limits.check(people.alice.context, "writes")
    with pytest.raises(TooManyRequestsError):
        rate_limits.check(people.bob.context, "writes")
    rate_limits.check(people.charlie.context, "writes")


def test_operators_are_not_limited(people: People, cloud: Cloud) -> None:
    limit(launches=1, writes=1)
    assert [launch(cloud, people.operator).status_code for _ in range(3)] == [202] * 3


@pytest.mark.parametrize(
    ("path", "sent", "shape"),
    [
        ("/compute/v2.1/os-keypairs", {"keypair": {"name": "laptop"}}, "overLimit"),
        ("/image/v2/images", {"name": "mine"}, "code"),
        ("/identity/v3/users/{user}/application_credentials", {"application_credential": {"name": "mine"}}, "error"),
    ],
)
def test_each_service_refuses_writes_in_its_own_shape(
    people: People, path: str, sent: dict[str, Any], shape: str
) -> None:
    limit(writes=1)
    api, where = Api(people.alice), path.format(user=people.alice.user_id.hex)
    assert api.post(where, sent).status_code in {200, 201}
    refused = api.post(where, sent)
    assert refused.status_code == 429
    assert shape in refused.json()
    assert int(refused["Retry-After"]) > 0
    assert api.delete("/compute/v2.1/os-keypairs/none").status_code == 429, "one count for all services"


def test_searches_and_dry_runs_have_limits_of_their_own(people: People, cloud: Cloud) -> None:
    limit(searches=1, dry_runs=1)
    api = Api(people.alice)
    searches = [api.get(f"{V21}/servers?{query}").status_code for query in ("name=w.b", "status=ACTIVE", "ip=10.0")]
    assert searches == [200, 200, 429]
    requested = {"would_fit": {"flavorRef": "1"}}
    assert [api.post(f"{V21}/novella-would-fit", requested).status_code for _ in range(2)] == [200, 429]


def test_the_dashboard_says_it_in_a_sentence_and_keeps_what_was_typed(people: People, cloud: Cloud) -> None:
    limit(launches=1)
    browser = Client()
    sign_in_browser(browser, people.alice)
    form = {"name": "typed-by-me", "count": 1, "image": str(cloud.image.id), "flavor": "1", "key_name": ""}
    form |= {"networks": [str(cloud.network.id)], "zone": "", "user_data": "", "security_groups": []}
    assert browser.post("/instances/launch/", form).status_code == 303
    answer = browser.post("/instances/launch/", form)
    assert answer.status_code == 422
    assert b"rate-limited" in answer.content
    assert b"typed-by-me" in answer.content
    assert Instance.objects.count() == 1


def test_a_button_of_the_dashboard_leads_back_with_the_sentence(people: People, cloud: Cloud) -> None:
    launch(cloud, people.alice)
    limit(writes=1)
    rate_limits.check(people.alice.context, "writes")
    browser = Client()
    sign_in_browser(browser, people.alice)
    answer = browser.post(f"/instances/{Instance.objects.get().id}/delete/", follow=True)
    assert b"rate-limited" in answer.content
    assert Instance.objects.get().task_state != "deleting"


def test_a_search_of_the_dashboard_is_counted(people: People, cloud: Cloud) -> None:
    limit(searches=1)
    browser = Client()
    sign_in_browser(browser, people.alice)
    assert browser.get("/instances/?q=web").status_code == 200
    assert b"rate-limited" in browser.get("/instances/?q=web", follow=True).content


TAKING = """
import sys
from django.conf import settings
backend = "provisioning.common.machine.machine_cache.MachineCache"
settings.configure(CACHES={"default": {"BACKEND": backend, "LOCATION": "/dev/null"},
                           "rates": {"BACKEND": backend, "LOCATION": sys.argv[1]}})
from portal.common.http.rate_limits import _charge
sys.stdout.write(str(sum(not _charge({"a": (3600.0, 180_000.0), "b": (1.0, 180_000.0)}) for _ in range(60))))
"""


def test_all_web_processes_count_together(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", TAKING, str(tmp_path / "rates")], stdout=subprocess.PIPE, cwd=ROOT)
        for _ in range(3)
    ]
    taken = [int(process.communicate(timeout=300)[0]) for process in processes]
    assert sum(taken) == 50


def test_counts_that_cannot_be_used_limit_nobody(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(writes=1)

    def fail(_: object) -> object:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(MachineCache, "exclusive", fail)
        for _ in range(3):
            rate_limits.check(people.alice.context, "writes")
    rate_limits.check(people.alice.context, "writes")
    with pytest.raises(TooManyRequestsError):
        rate_limits.check(people.alice.context, "writes")


def test_what_is_over_is_free_again_and_a_clock_set_back_locks_nobody_out(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(writes=2)
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    for _ in range(2):
        rate_limits.check(people.alice.context, "writes")
    assert rate_limits.seconds_to_wait(people.alice.context, "writes") == HOUR // 2
    now += HOUR / 2
    assert rate_limits.seconds_to_wait(people.alice.context, "writes") == 0
    now -= 40 * HOUR
    assert rate_limits.seconds_to_wait(people.alice.context, "writes") <= HOUR


def test_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "DECLARED", {})  # the real ones are compared with the documentation

    def read(text: str) -> dict[str, tuple[int, int]]:
        monkeypatch.setitem(os.environ, "NOVELLA_TEST_RATES", text)
        return environment.rates("NOVELLA_TEST_RATES", {"launches": (3, 60), "writes": (5, 60)})

    assert read("") == {"launches": (3, 60), "writes": (5, 60)}
    assert read("none") == {}
    assert read("writes=10/5, launches=0") == {"launches": (0, 1), "writes": (10, 5)}
    for wrong in ("writes", "writes=5", "writes=5/0", "reads=1/1", "writes=-1/5", "writes=1/1,none"):
        with pytest.raises(ImproperlyConfigured):
            read(wrong)
