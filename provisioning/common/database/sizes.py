"""Sizes of the database and its tables."""

from collections.abc import Sequence

from django.db import connection


def database_size() -> int:
    """Return the size of the database in bytes."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_database_size(current_database())")
        else:
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        return int(cursor.fetchone()[0])


def rows_of_tables(tables: Sequence[str]) -> dict[str, int]:
    """Return the number of rows of each table, with one query. On PostgreSQL the numbers are estimates from its
    statistics.
    """
    if connection.vendor == "postgresql":
        query = "SELECT relname, n_live_tup FROM pg_stat_user_tables WHERE relname = ANY(%s)"
        parameters: list[str] | list[list[str]] = [list(tables)]
    else:
        name = connection.ops.quote_name
        query = " UNION ALL ".join(f"SELECT %s, COUNT(*) FROM {name(table)}" for table in tables)  # noqa: S608
        parameters = list(tables)
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return {str(table): int(many) for table, many in cursor.fetchall()}
