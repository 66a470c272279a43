"""The kinds of records that have EC2 ids."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import Func, Model, UUIDField

from provisioning.common.wired import Wired


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: ``prefix`` is the part of its ids before the dash, ``resource_type`` its name in tags."""

    prefix: str
    resource_type: str
    model: type[Model]
    """The model whose primary key the ids represent; an integer key n is ``UUID(int=n)``."""
    others: tuple[type[Model], ...] = ()
    """More models whose keys the ids represent."""


KINDS = Wired[Kind]("The kinds of EC2 ids")
"""An id and its tags are purged when no model of its kind has a row for it."""


@cache
def by_prefix() -> dict[str, Kind]:
    return {kind.prefix: kind for kind in KINDS}


class UuidOfNumber(Func):
    """The UUID with an integer value, as ``uuid.UUID(int=…)``."""

    arity = 1
    output_field: Any = UUIDField()
    template = "CAST(lpad(to_hex(%(expressions)s), 32, '0') AS uuid)"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite stores UUIDs as 32 hexadecimal characters."""
        return self.as_sql(compiler, connection, template="printf('%%032x', %(expressions)s)", **extra)
