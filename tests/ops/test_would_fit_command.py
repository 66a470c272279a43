"""``manage.py would_fit``: the scheduler asked at the command line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from provisioning.compute.models import Instance, ServerGroup
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("node-1")
    cloud.add_host("node-2", memory_mb=512)
    return cloud


def run(*arguments: str) -> tuple[int, str]:
    """Return exit status and output."""
    out = io.StringIO()
    try:
        call_command("would_fit", *arguments, stdout=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def wrong(*arguments: str) -> str:
    with pytest.raises(CommandError) as refused:
        run(*arguments)
    assert refused.value.returncode == 2
    return str(refused.value)


def test_a_table_for_people(cloud: Cloud) -> None:
    status, out = run("--flavor", "m1.small")
    assert status == 0
    lines = out.splitlines()
    assert lines[:3] == ["m1.small fits 8 times; 1 requested.", "", "One more:"]
    assert next(line for line in lines if line.startswith("ComputeFilter")).split()[1:3] == ["2", "2"]
    assert lines[-2].split() == ["host", "servers"]
    assert lines[-1].split() == ["node-1", "8"]
    assert not Instance.objects.exists()


def test_the_status_says_whether_all_fit(cloud: Cloud) -> None:
    assert run("--flavor", "m1.big", "--count", "2")[0] == 0
    status, out = run("--flavor", "m1.big", "--count", "3")
    assert status == 1
    assert "fits 2 times; 3 requested." in out
    assert run("--flavor", "1", "--host", "node-2")[0] == 1


def test_json_for_programs(cloud: Cloud) -> None:
    status, out = run("--flavor", "m1.big", "--count", "5", "--json")
    answer: dict[str, Any] = json.loads(out)
    assert status == 1
    assert (answer["fits"], answer["asked"]) == (2, 5)
    assert answer["hosts"] == [{"host": "node-1", "servers": 2}]
    assert answer["filters"][-1]["after"] == 0
    assert answer["driver"] == "filter"


def test_image_zone_project_and_hints(cloud: Cloud, people: People) -> None:
    group = ServerGroup.objects.create(
        project_id=people.alice.project_id, user_id=people.alice.user_id, name="g", policy="anti-affinity"
    )
    options = ("--flavor", "1", "--image", "small", "--zone", "nova", "--project", "wonderland", "--count", "2")
    assert run(*options)[0] == 0
    status, out = run(*options, "--hint", f"group={group.id}")
    assert (status, out.splitlines()[0]) == (1, "1 fits once; 2 requested.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--flavor", "moon"), "no flavor moon"),
        (("--flavor", "1", "--image", "moon"), "image moon"),
        (("--flavor", "1", "--zone", "moon"), "zone"),
        (("--flavor", "1", "--host", "moon"), "could not be found"),
        (("--flavor", "1", "--project", "moon"), "no project moon"),
        (("--flavor", "1", "--hint", "group"), "--hint group"),
        (("--flavor", "1", "--hint", "group=x"), "uuid"),
        (("--flavor", "1", "--count", "0"), "1"),
        (("--flavor", "1", "--count", "-7"), "1"),
    ],
)
def test_a_wrong_question_has_a_status_of_its_own(cloud: Cloud, arguments: tuple[str, ...], words: str) -> None:
    assert words in wrong(*arguments)
