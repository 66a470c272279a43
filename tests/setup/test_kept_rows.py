"""What most tests begin with is written by the services once, and then again as it was: nothing differs but ids and
times.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from django.utils import timezone

from tests.support import cast, clouds
from tests.support.kept import Kept

pytestmark = pytest.mark.both_databases("constraints")
APPS = ("identity", "network", "quotas", "images", "compute")


CHOSEN = {"id", "bridge", "segmentation_id", "mac_address", "device_id"}
"""Columns that are another each time: chosen at random, or a record's id."""


def everything() -> dict[str, list[str]]:
    """All rows of all tables that something is in, with ids by the order in which they come and no times."""
    result = {}
    for model in (model for label in APPS for model in apps.get_app_config(label).get_models()):
        rows = [_row(record) for record in model._default_manager.order_by(*_order(model))]
        if rows:
            result[model.__name__] = rows
    return result


def _order(model: type[models.Model]) -> list[str]:
    names = {each.name for each in model._meta.concrete_fields}
    return [name for name in ("name", "flavorid", "resource", "interface", "user", "prior", "id") if name in names]


def _row(record: models.Model) -> str:
    values = {each.attname: getattr(record, each.attname) for each in record._meta.concrete_fields}
    return str({name: value for name, value in values.items() if not _own(value) and name not in CHOSEN})


def _own(value: Any) -> bool:
    return isinstance(value, datetime) or (isinstance(value, uuid.UUID) and value.version == 4)


def _twice(make: Callable[[], Any]) -> tuple[Any, Any]:
    """Make it, look at the rows, and undo it; then again."""
    values = []
    for _ in range(2):
        with transaction.atomic():
            began = timezone.now()
            make()
            values.append(everything())
            connection.check_constraints()
            for user in cast.User.objects.all():
                assert (timezone.now() - user.created_at).total_seconds() < 60 + (
                    timezone.now() - began
                ).total_seconds()
            transaction.set_rollback(True)
    return values[0], values[1]


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cast, "_kept", {})
    monkeypatch.setattr(clouds, "_kept", {})
    monkeypatch.setattr(clouds, "_known", {})


def test_the_cast_comes_again(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _twice(cast.make_people)
    assert second == first
    monkeypatch.setattr(cast, "_make_people", lambda: pytest.fail("the services wrote it again"))
    people = cast.make_people()
    for person in people.everybody():
        assert cast.User.objects.get(pk=person.user.pk).name == person.user.name
        assert cast.Project.objects.get(pk=person.project.pk).name == person.project.name
        assert person.context.project_id == person.project_id
    assert people.alice.project is people.bob.project


def test_a_cloud_comes_again(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _twice(clouds.Cloud.make)
    assert second == first
    monkeypatch.setattr(clouds.Cloud, "_make", lambda: pytest.fail("the services wrote it again"))
    cloud = clouds.Cloud.make()
    for record in (cloud.network, cloud.image, cloud.small, cloud.big):
        now = type(record)._default_manager.get(pk=record.pk)
        assert {each.attname: getattr(record, each.attname) for each in record._meta.concrete_fields} == {
            each.attname: getattr(now, each.attname) for each in now._meta.concrete_fields
        }


def test_nothing_is_kept_of_what_is_written_elsewhere_too(db: None) -> None:
    kept = Kept("network")
    kept.write(cast.make_domain)
    assert "identity_domain" in kept.elsewhere
    assert not kept.fits


def test_nothing_comes_again_into_tables_that_are_in_use(db: None) -> None:
    kept = Kept("identity")
    assert kept.fits
    cast.make_domain()
    assert not kept.fits
    assert cast.make_people().alice.project.domain.name == "Default"
