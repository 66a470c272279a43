"""Which records have ids of EC2: each app says it of its own when it starts."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Func, Model, UUIDField


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: ``prefix`` stands before the dash of its ids, ``resource_type`` is what tags call it."""

    prefix: str
    resource_type: str
    model: type[Model]
    """Whose primary key the id stands for; a number is the UUID of this number."""
    others: tuple[type[Model], ...] = ()
    """More models whose keys ids of this kind stand for."""


kinds: dict[str, Kind] = {}
"""By prefix."""


def register(prefix: str, resource_type: str, model: type[Model], *others: type[Model]) -> None:
    """Make a kind known; what no row of ``model`` or the ``others`` has any more loses its id and its tags."""
    kinds[prefix] = Kind(prefix, resource_type, model, others)


class UuidOfNumber(Func):
    """The UUID of a number, as ``uuid.UUID(int=…)`` is."""

    arity = 1
    output_field: Any = UUIDField()
    template = "CAST(lpad(to_hex(%(expressions)s), 32, '0') AS uuid)"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite keeps UUIDs as 32 hexadecimal characters."""
        return self.as_sql(compiler, connection, template="printf('%%032x', %(expressions)s)", **extra)
