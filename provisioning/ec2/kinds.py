"""Which records have ids of EC2: each app says it of its own when it starts."""

from dataclasses import dataclass

from django.db.models import Model


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: ``prefix`` stands before the dash of its ids, ``resource_type`` is what tags call it."""

    prefix: str
    resource_type: str
    model: type[Model]
    """Whose primary key the id stands for."""


kinds: dict[str, Kind] = {}
"""By prefix."""


def register(prefix: str, resource_type: str, model: type[Model]) -> None:
    """Make a kind known; what no row of ``model`` has any more loses its id and its tags."""
    kinds[prefix] = Kind(prefix, resource_type, model)
