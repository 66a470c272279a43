"""Statements that are sent again and again: PostgreSQL plans each once for a connection."""

from __future__ import annotations

import importlib
import sys
import uuid
from typing import Any

import pytest
from django.db import connection, models
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.lookups import Ids
from provisioning.common.database.prepared import Prepared, PreparedUpdate
from provisioning.common.database.repeated import Repeated
from provisioning.identity.models import User
from provisioning.identity.roles import effective
from tests.support.clouds import Cloud

on_postgresql = pytest.mark.parametrize(
    "database", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True
)
NAME_OF = Prepared(lambda key: User.objects.filter(id=key).values_list("name", flat=True), key=models.UUIDField())


def prepared() -> str:
    """Return the text of all statements that the server keeps for this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return "\n".join(text for (text,) in cursor.fetchall())


def of_any_kind(field: models.Field[Any, Any]) -> Any:
    """Return a value that such a field could have."""
    if isinstance(field, Ids):
        return [uuid.uuid4(), uuid.uuid4()]
    if isinstance(field, models.DateTimeField):
        return timezone.now()
    kinds: dict[type[models.Field[Any, Any]], Any] = {
        models.UUIDField: uuid.uuid4(),
        models.BooleanField: True,
        models.IntegerField: 7,
        models.CharField: "x",
        models.TextField: "x",
        models.GenericIPAddressField: "10.0.0.1",
        models.JSONField: {"x": 1},
    }
    return next(value for kind, value in kinds.items() if isinstance(field, kind))


def every_prepared_statement() -> list[Prepared[Any] | PreparedUpdate]:
    """Return those of all modules: by themselves, and those in a dictionary."""
    statements = []
    for module in [each for name, each in sys.modules.items() if name.startswith(("provisioning.", "portal."))]:
        for value in list(vars(module).values()):
            inside = value.values() if isinstance(value, dict) else [value]
            statements += [each for each in inside if isinstance(each, Prepared | PreparedUpdate)]
    assert len(statements) > 30
    return statements


@pytest.mark.django_db
@pytest.mark.both_databases("sql")
def test_the_database_understands_every_prepared_statement_with_parameters_of_its_own() -> None:
    importlib.import_module("portal.asgi")
    for each in every_prepared_statement():
        values = {name: of_any_kind(field) for name, field in each._parameters.items()}
        none = {name: [] for name, field in each._parameters.items() if isinstance(field, Ids)}
        for given in (values, values | none, values, values | none):
            rows = each(**given)
            assert isinstance(rows, list | int)


@on_postgresql
@pytest.mark.django_db
def test_what_a_user_may_do_in_a_project_is_planned_once(cloud: Cloud, alice: RequestContext) -> None:
    assert alice.user_id is not None
    assert "identity_impliedrole" not in prepared()
    for _ in range(3):
        effective.role_names(alice.user_id, project_id=alice.project_id)
    assert "identity_impliedrole" in prepared()


@on_postgresql
@pytest.mark.django_db
def test_a_captured_statement_is_prepared_too(cloud: Cloud, alice: RequestContext) -> None:
    name = User.objects.get(id=alice.user_id).name
    with CaptureQueriesContext(connection) as queries:
        for _ in range(3):
            assert NAME_OF(key=alice.user_id) == [name]
    assert len(queries) == 3
    assert "$1" in prepared()


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_a_column_that_a_migration_changes_is_read_with_its_new_type_at_once() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE changing (number integer)")
        try:
            cursor.execute("INSERT INTO changing VALUES (7)")
            question = Repeated("SELECT number FROM changing WHERE number::text = %s")
            for _ in range(3):
                with connection.cursor() as asking:
                    asking.execute(question, ["7"])
                    assert asking.fetchall() == [(7,)]
            assert "changing" in prepared()
            elsewhere: Any = connection
            with elsewhere.Database.connect(**elsewhere.get_connection_params(), autocommit=True) as other:
                other.execute("ALTER TABLE changing ALTER number TYPE text")
            for _ in range(3):
                with connection.cursor() as asking:
                    asking.execute(question, ["7"])
                    assert asking.fetchall() == [("7",)]
        finally:
            cursor.execute("DROP TABLE changing")
