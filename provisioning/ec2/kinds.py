"""The records that have ids of EC2."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import Func, Model, UUIDField

from provisioning.common.wired import Wired


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: ``prefix`` stands before the dash of its ids, ``resource_type`` is what tags call it."""

    prefix: str
    resource_type: str
    model: type[Model]
    """Whose primary key the id stands for; a number is the UUID of this number."""
    others: tuple[type[Model], ...] = ()
    """More models whose keys ids of this kind stand for."""


KINDS = Wired[Kind]("The kinds of EC2 ids")
"""An id and its tags are purged when no row of its kind's models has it any more."""


@cache
def by_prefix() -> dict[str, Kind]:
    return {kind.prefix: kind for kind in KINDS}


class UuidOfNumber(Func):
    """The UUID of a number, as ``uuid.UUID(int=…)`` is."""

    arity = 1
    output_field: Any = UUIDField()
    template = "CAST(lpad(to_hex(%(expressions)s), 32, '0') AS uuid)"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite keeps UUIDs as 32 hexadecimal characters."""
        return self.as_sql(compiler, connection, template="printf('%%032x', %(expressions)s)", **extra)
