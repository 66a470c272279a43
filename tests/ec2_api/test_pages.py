"""Lists of EC2 are cut in the database, page by page, and reading them writes nothing."""

from __future__ import annotations

import base64
import json
import re
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.api.ec2 import urls
from portal.api.ec2.describe import table
from provisioning.compute.models import Instance, KeyPair
from provisioning.ec2 import ids
from provisioning.ec2.models import Ec2Id
from provisioning.ec2.tags import write
from provisioning.images.models import Image
from provisioning.images.services import records as images
from provisioning.volumes.models import Snapshot, Volume
from tests.compute_api.conftest import put_server
from tests.ec2_api.conftest import Boto
from tests.support.cast import People

__all__ = ["urls"]
pytestmark = pytest.mark.django_db


def volumes(people: People, many: int) -> list[Volume]:
    made = [Volume(project_id=people.alice.project_id, name=f"v{number}", size_gb=number) for number in range(many)]
    return Volume.objects.bulk_create(made)


def pages(alice: Any, action: str, what: str, key: str, **arguments: Any) -> list[list[Any]]:
    """Follow the tokens to the end; return what each page has."""
    result: list[list[Any]] = []
    token: dict[str, str] = {}
    while True:
        answer = getattr(alice, action)(**arguments, **token)
        result.append([each[key] for each in answer[what]])
        if not answer.get("NextToken"):
            return result
        token = {"NextToken": answer["NextToken"]}


@pytest.mark.slow
@pytest.mark.both_databases
def test_pages_have_everything_once_and_in_order(boto: Boto, people: People) -> None:
    made = volumes(people, 12)
    Volume.objects.update(created_at=made[0].created_at)  # the same moment for all: ids decide
    snapshots = [
        Snapshot(project_id=people.alice.project_id, volume=made[0], name=f"s{number}", size_gb=1, status="available")
        for number in range(7)
    ]
    Snapshot.objects.bulk_create(snapshots)
    alice = boto(people.alice)
    result = pages(alice, "describe_volumes", "Volumes", "VolumeId", MaxResults=5)
    assert [len(each) for each in result] == [5, 5, 2]
    assert [each for page in result for each in page] == [
        f"vol-{key.hex[:17]}" for key in sorted(volume.id for volume in made)
    ]
    assert [len(each) for each in pages(alice, "describe_snapshots", "Snapshots", "SnapshotId", MaxResults=5)] == [5, 2]


@pytest.mark.both_databases("sql")
def test_filtered_pages_are_full(boto: Boto, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "BATCH", 4)
    volumes(people, 30)
    sizes = [str(number) for number in (1, 2, 15, 28, 29)]
    arguments = {"MaxResults": 2, "Filters": [{"Name": "size", "Values": sizes}]}
    result = pages(boto(people.alice), "describe_volumes", "Volumes", "Size", **arguments)
    assert sorted(each for page in result for each in page) == [1, 2, 15, 28, 29]
    assert [len(each) for each in result] == [2, 2, 1]


def test_a_page_reads_its_own_rows(boto: Boto, people: People) -> None:
    volumes(people, 30)
    alice = boto(people.alice)
    with CaptureQueriesContext(connection) as context:
        assert len(alice.describe_volumes(MaxResults=5)["Volumes"]) == 5
    (sql,) = [each["sql"] for each in context if 'FROM "volumes_volume"' in each["sql"]]
    assert sql.endswith("LIMIT 6")


@pytest.mark.slow
def test_without_a_number_a_page_has_a_thousand(boto: Boto, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST", 3)
    volumes(people, 5)
    for number in range(5):
        put_server(people.alice, f"s{number}")
    write(people.alice.project_id, [("i", each.id) for each in Instance.objects.all()], {"a": "b"})
    alice = boto(people.alice)
    assert [len(each) for each in pages(alice, "describe_volumes", "Volumes", "VolumeId")] == [3, 2]
    assert [len(each) for each in pages(alice, "describe_tags", "Tags", "ResourceId")] == [3, 2]
    result = pages(alice, "describe_instances", "Reservations", "ReservationId")
    assert len(result) == 2
    assert pages(alice, "describe_instance_status", "InstanceStatuses", "InstanceId", IncludeAllInstances=True)[1]


@pytest.mark.parametrize(
    "place",
    [
        [],
        ["x", "y"],
        ["2026-01-01T00:00:00+00:00"],
        ["2026-01-01T00:00:00+00:00", "x"],
        ["0001-01-01T00:00:00+14:00", str(uuid.uuid4())],
        ["2026-01-01T00:00:00+00:00", None],
        "x",
        {},
    ],
)
def test_a_token_of_somebody_else_is_refused(boto: Boto, people: People, place: Any) -> None:
    token = base64.urlsafe_b64encode(json.dumps(place).encode()).decode()
    alice = boto(people.alice)
    with pytest.raises(alice.exceptions.ClientError, match="nextToken"):
        alice.describe_volumes(NextToken=token)


# ----- ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_lists_write_nothing(boto: Boto, people: People) -> None:
    volumes(people, 2)
    put_server(people.alice)
    KeyPair.objects.create(user_id=people.alice.user.id, name="k", public_key="x", fingerprint="x")
    alice = boto(people.alice)
    for _ in range(2):  # the project's default group is created at the first look
        with CaptureQueriesContext(connection) as context:
            (volume, _), pair = alice.describe_volumes()["Volumes"], alice.describe_key_pairs()["KeyPairs"][0]
            instance = alice.describe_instances()["Reservations"][0]["Instances"][0]
            alice.describe_security_groups()
    written = [each["sql"] for each in context if re.match("INSERT|UPDATE|DELETE", each["sql"])]
    assert written == []
    assert not Ec2Id.objects.exists()
    shown = alice.describe_volumes(VolumeIds=[volume["VolumeId"]])["Volumes"]
    assert [each["VolumeId"] for each in shown] == [volume["VolumeId"]]
    assert alice.describe_instances(InstanceIds=[instance["InstanceId"]])["Reservations"]
    assert alice.describe_key_pairs(KeyPairIds=[pair["KeyPairId"]])["KeyPairs"][0]["KeyName"] == "k"


@pytest.mark.both_databases("sql")
def test_an_id_that_was_given_at_random_stays(people: People) -> None:
    (volume,) = volumes(people, 1)
    Ec2Id.objects.create(ec2_id="vol-00123456789abcdef", kind="vol", resource_id=volume.id)
    assert ids.id_of("vol", volume.id) == "vol-00123456789abcdef"
    own = f"vol-{volume.id.hex[:17]}"
    assert ids.resources_of("vol", ["vol-00123456789abcdef", own]) == {"vol-00123456789abcdef": volume.id}


@pytest.mark.both_databases
def test_nobody_takes_the_id_of_an_image_by_choosing_a_uuid(people: People) -> None:
    mine = images.create(people.alice.context, name="mine")
    shown = ids.id_of("ami", mine.id)
    chosen = uuid.UUID(int=mine.id.int ^ 1)
    for key in (chosen, uuid.UUID(int=5)):
        images.create(people.charlie.context, image_id=key, name="theirs")
    others = ids.ids_of("ami", [chosen, uuid.UUID(int=5)])
    assert shown not in others.values()
    assert ids.resources_of("ami", [shown, *others.values()]) == {
        shown: mine.id,
        **{ec2_id: key for key, ec2_id in others.items()},
    }
    assert Image.objects.count() == 3


def test_ids_of_numbers_lead_back_to_them(people: People) -> None:
    pair = KeyPair.objects.create(user_id=people.alice.user.id, name="k", public_key="x", fingerprint="x")
    ec2_id = ids.id_of("key", uuid.UUID(int=pair.id))
    assert ids.is_id("key", ec2_id)
    assert ids.resources_of("key", [ec2_id, "key-0ffffffffffffffff"]) == {ec2_id: uuid.UUID(int=pair.id)}


def test_messages_name_what_nobody_was_shown(people: People) -> None:
    (volume,) = volumes(people, 1)
    other = uuid.uuid4()
    assert ids.in_words(f"Volume {volume.id}, not {other}.") == f"Volume vol-{volume.id.hex[:17]}, not {other}."
