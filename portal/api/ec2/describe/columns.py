"""Database conditions for the values of filters, which are text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import BooleanField, CharField, Model, Q, TextField

from provisioning.ec2 import ids

_TEXTS = (CharField, TextField)
_BOOLEANS = {"true": True, "false": False}


def field_of(model: type[Model], column: str) -> Any:
    """Return the field of a column, which may be a column of related rows (``attachments__instance_id``)."""
    *relations, name = column.split("__")
    for each in relations:
        model = model._meta.get_field(each).related_model  # type: ignore[assignment]  # a relation
    return model._meta.pk if name == "pk" else model._meta.get_field(name)


def condition(model: type[Model], column: str, values: Sequence[str], prefix: str = "") -> Q | None:
    """Return a condition for rows whose column has one of the values, or None if there is none for these values.

    ``prefix``: the values are EC2 ids with this prefix. Values with ``*`` or ``?`` are compared only up to the first of
    these characters.
    """
    field = field_of(model, column)
    if prefix:
        ec2_ids = [each for each in values if ids.is_id(prefix, each)]
        found = Q(**{f"{column}__in": list(ids.resources_of(prefix, ec2_ids).values()) if ec2_ids else []})
    elif isinstance(field, _TEXTS):
        beginnings = [_beginning(each) for each in values]
        if any(beginning == "" for _, beginning in beginnings):
            return None
        found = Q(**{f"{column}__in": [text for text, beginning in beginnings if beginning is None]})
        for _, beginning in beginnings:
            found |= Q(**{f"{column}__startswith": beginning}) if beginning else Q(pk__in=[])
    elif any(mark in each for each in values for mark in "*?\\"):
        return None
    else:
        found = Q(**{f"{column}__in": list(_read(field, values))})
    return Q(pk__in=model._default_manager.filter(found).values("pk")) if "__" in column else found


def _beginning(text: str) -> tuple[str, str | None]:
    """Return a text and the part before its first wildcard; None if it has no wildcard."""
    places = [place for mark in "*?\\" if (place := text.find(mark)) >= 0]
    return text, text[: min(places)] if places else None


def _read(field: Any, texts: Iterable[str]) -> Iterator[Any]:
    """Yield the texts as values of the field. A text that the field rejects matches no row and is omitted."""
    for text in texts:
        if isinstance(field, BooleanField):
            if text in _BOOLEANS:
                yield _BOOLEANS[text]
            continue
        try:
            value = field.to_python(text)
            field.run_validators(value)
        except ValidationError:
            continue
        yield value
