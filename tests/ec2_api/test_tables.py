"""The tables of Describe actions: paths that the responses have, and a database that finds what the items show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models import Model
from django.utils import timezone

from portal.api.ec2 import urls
from portal.api.ec2.actions.every import TABLES
from portal.api.ec2.describe import Described, filters
from portal.api.ec2.frame import Call, Shape
from portal.api.ec2.protocol import model
from provisioning.ec2.models import Ec2Tag
from provisioning.ec2.tags import write
from provisioning.network.models import Network
from provisioning.volumes.models import Volume, VolumeModification
from tests.ec2_api.test_query_baseline import Ec2World
from tests.support.cast import People

__all__ = ["urls"]
MANY = 24


def _has(shape: Any, path: str) -> bool:
    """Whether a structure of the model has a path to a scalar, or to a list of scalars."""
    for step in path.split("."):
        name = step.removesuffix("[]")
        if shape.type_name != "structure" or name not in shape.members:
            return False
        shape = shape.members[name]
        if step.endswith("[]"):
            if shape.type_name != "list":
                return False
            shape = shape.member
    last = shape.member if shape.type_name == "list" else shape
    return last.type_name != "structure"


def test_every_filter_reads_a_member_of_the_response() -> None:
    strange = []
    for table in TABLES.values():
        item = model.operation(table.action).output_shape.members[table.member].member
        declared = [each if isinstance(each, str) else getattr(each, "path", "_") for each in table.filters.values()]
        if isinstance(table, Described) and table.tags and table.filters:
            declared.append(f"{table.tags}[].Key")
        strange += [f"{table.action}: {path}" for path in declared if path[0] != "_" and not _has(item, path)]
    assert strange == []


def _call(people: People, **arguments: Any) -> Call:
    return Call(people.alice.context, arguments, "RegionOne", "http://testserver/ec2/")


def _texts(shape: Shape, table: Described[Any]) -> Iterator[tuple[str, str]]:
    """Yield the filters that an item matches, each with one of its values."""
    for name, declared in table.filters.items():
        values = [text for text in filters.texts(filters.reader(declared)(shape)) if text]
        yield from ((name, text) for text in values[:1])
    if table.tags:
        for key, value in [(each["Key"], each["Value"]) for each in filters.read_path(shape, f"{table.tags}[]")]:
            yield from ((f"tag:{key}", value), ("tag-key", key), ("tag-value", value))


@pytest.mark.slow
@pytest.mark.both_databases("sql")
def test_every_filter_finds_the_items_that_show_its_value(people: People) -> None:
    Ec2World(people.alice).grow(2)
    volume = Volume.objects.earliest("id")
    now = timezone.now()
    VolumeModification.objects.create(volume=volume, original_size_gb=1, target_size_gb=2, started_at=now, ended_at=now)
    lost, seen = [], set()
    # Each value is tried with one item that shows it, because every try costs several queries.
    tried: dict[tuple[str, str], set[str]] = defaultdict(set)
    for table in TABLES.values():
        if not isinstance(table, Described) or not table.filters:
            continue
        for shape in table.shape(_call(people), list(_rows(table, people))):
            for name, text in _texts(shape, table) if shape is not None else ():
                values = {text} if (table.action, name) in seen else {text, text[:3] + "*"}
                seen.add((table.action, name))
                for value in values - tried[table.action, name]:
                    tried[table.action, name].add(value)
                    result = table.listed(_call(people, Filters=[{"Name": name, "Values": [value]}]))[0]
                    if not _among(shape, result):
                        lost.append((table.action, name, value))
    assert lost == []
    assert len(seen) > 200


def _rows(table: Described[Any], people: People) -> Iterator[Model]:
    rows = table.rows(_call(people))
    for source in rows if isinstance(rows, tuple) else (rows,):
        yield from source


def _among(shape: Shape, found: list[Shape]) -> bool:
    if "Instances" in shape:
        ec2_id = shape["Instances"][0]["InstanceId"]
        return any(each["InstanceId"] == ec2_id for group in found for each in group["Instances"])
    return any(each == shape for each in found)


# ----- costs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the rows that are read as objects, by model."""
    counts: Counter[str] = Counter()
    original = Model.from_db.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Model], *values: Any) -> Model:
        counts[cls.__name__] += 1
        result: Model = original(cls, *values)
        return result

    monkeypatch.setattr(Model, "from_db", classmethod(counted))
    return counts


def _cost(action: str, people: People, counts: Counter[str], **arguments: Any) -> dict[str, int]:
    counts.clear()
    TABLES[action].listed(_call(people, MaxResults=5, **arguments))
    return dict(counts)


@pytest.mark.slow
def test_a_page_reads_as_many_rows_of_a_long_list_as_of_a_short_one(people: People, loaded: Counter[str]) -> None:
    world = Ec2World(people.alice)
    paged = [name for name, table in TABLES.items() if isinstance(table, Described) and table.paged]
    world.grow(6)
    Ec2Tag.objects.filter(resource_id=Network.objects.get(name="outside").id).delete()  # it is hidden: no VPC
    short = {name: _cost(name, people, loaded) for name in paged}
    world.grow(MANY)
    Ec2Tag.objects.filter(resource_id=Network.objects.get(name="outside").id).delete()
    assert {name: _cost(name, people, loaded) for name in paged} == short


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("size", "7"), ("tag:Name", "data"), ("tag-key", "Name")])
def test_a_page_of_five_among_a_thousand_rows_reads_six(
    people: People, loaded: Counter[str], name: str, value: str
) -> None:
    mine = {"project_id": people.alice.project_id}
    rows = [Volume(**mine, name=f"v{number}", size_gb=7 if number % 50 == 0 else 1) for number in range(1000)]
    Volume.objects.bulk_create(rows)
    write(people.alice.project_id, [("vol", row.id) for row in rows[::50]], {"Name": "data"})
    assert _cost("DescribeVolumes", people, loaded) == {"Volume": 6}
    assert _cost("DescribeVolumes", people, loaded, Filters=[{"Name": name, "Values": [value]}]) == {"Volume": 6}
