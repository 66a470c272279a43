"""What makes SQL for SQLite."""

from django.db.models.sql import compiler
from django.db.models.sql.compiler import (
    SQLAggregateCompiler,
    SQLDeleteCompiler,
    SQLInsertCompiler,
    SQLUpdateCompiler,
)

from provisioning.common.select_compiler import QuickSelect

__all__ = ["SQLAggregateCompiler", "SQLCompiler", "SQLDeleteCompiler", "SQLInsertCompiler", "SQLUpdateCompiler"]


class SQLCompiler(QuickSelect, compiler.SQLCompiler):
    """Django's, for SELECT."""
