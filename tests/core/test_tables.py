"""What the migrations make of an empty database, as each database of the tests was made, is what the models say."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, models
from django.db.backends.sqlite3.introspection import DatabaseIntrospection
from sqlparse.engine import filter_stack

pytestmark = pytest.mark.django_db
MODELS = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]


@pytest.mark.slow
@pytest.mark.both_databases("sql")
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.both_databases("sql")
def test_every_table_belongs_to_a_model() -> None:
    expected = {model._meta.db_table for model in MODELS} | {"django_migrations"}
    assert set(connection.introspection.table_names()) == expected


@pytest.mark.parametrize(
    "database",
    [pytest.param("sqlite", marks=pytest.mark.slow), pytest.param("postgresql", marks=pytest.mark.postgresql)],
    indirect=True,
)
def test_columns_indexes_and_constraints_are_those_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of SQLite's statements single words are looked at: to group them takes seconds, and is for collations only.
    monkeypatch.setattr(filter_stack.grouping, "group", lambda statement: statement)
    monkeypatch.setattr(DatabaseIntrospection, "_get_column_collations", lambda *_: {})
    wrong = []
    with connection.cursor() as cursor:
        for model in MODELS:
            table = model._meta.db_table
            described = connection.introspection.get_table_description(cursor, table)
            columns = {column.name: bool(column.null_ok) for column in described}
            expected = {field.column: field.null for field in model._meta.concrete_fields}
            result = connection.introspection.get_constraints(cursor, table)
            named = {each.name for each in [*model._meta.indexes, *model._meta.constraints]}
            unique = {
                (field.column,) for field in model._meta.concrete_fields if field.unique and not field.primary_key
            }
            unique -= {tuple(each["columns"]) for each in result.values() if each["unique"]}
            keys = {
                field.column
                for field in model._meta.concrete_fields
                if isinstance(field, models.ForeignKey) and field.db_constraint
            }
            keys -= {each["columns"][0] for each in result.values() if each["foreign_key"]}
            if columns != expected or named - result.keys() or unique or keys:
                wrong.append((table, columns.items() ^ expected.items(), named - result.keys(), unique, keys))
    assert wrong == []
