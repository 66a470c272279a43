"""``Filter.N``: an item matches a filter if it matches one of the filter's values, and has to match all filters.

``*`` and ``?`` match any text and any character (EC2 user guide, "Filter your resources"). A table declares a filter as

* a path into the items: ``Attachments[].InstanceId`` has a value for each attachment,
* a `Column`, or a `Narrowed` condition: the database also compares the values,
* `Always`: a value that all items have,
* a function that reads the value of an item.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import re2
from django.core.exceptions import ValidationError
from django.db.models import BooleanField, CharField, Model, Q, TextField, UUIDField

from portal.api.ec2.frame import Ec2Error, errors, names
from provisioning.ec2 import ids, tags

MOST_FILTERS = 50
MOST_VALUES = 200
MARKS = "*?\\"
"""Characters with a special meaning in a filter's value."""
Item = Mapping[str, Any]
"""The representation of a row in the response, from which filters read."""
Reader = Callable[[Item], object]
"""Returns an item's value for a filter: one value, several values, or None."""


@dataclass(frozen=True, slots=True)
class Always:
    """A value that is the same for all items."""

    value: object

    def read(self, item: Item) -> object:
        return self.value


NOTHING = Always(())
"""A filter on an attribute that no item has; no item matches it."""


class Narrowing(Protocol):
    """A filter with a condition for the database."""

    @property
    def path(self) -> str: ...

    def narrow(self, model: type[Model], values: Sequence[str]) -> tuple[Q, bool] | None:
        """Return a condition that all matching rows fulfil, and whether only matching rows do; None if there is no such
        condition for these values.
        """
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """A filter on a column of the database, which may be a column of related rows (``attachments__instance_id``)."""

    path: str
    column: str
    kind: names.Kind | None = None
    """The kind of the ids in the column; the values of the filter are EC2 ids."""

    def narrow(self, model: type[Model], values: Sequence[str]) -> tuple[Q, bool] | None:
        exact = not has_marks(values)
        if not exact and self.kind is not None:
            return None
        matching = _on_column(model, self.column, values, self.kind.prefix if self.kind else "")
        return None if matching is None else (matching, exact)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A filter on a value that is computed from columns."""

    path: str
    condition: Callable[[Sequence[str]], Q]
    """Returns a condition that all matching rows fulfil."""
    exact: bool = False
    """Whether only matching rows fulfil it."""

    def narrow(self, model: type[Model], values: Sequence[str]) -> tuple[Q, bool] | None:
        return None if has_marks(values) else (self.condition(values), self.exact)


Filter = str | Always | Column | Narrowed | Reader


@dataclass(frozen=True, slots=True)
class RequestedFilter:
    """A filter of a request."""

    values: Sequence[str]
    read: Reader
    accepts: Callable[[str], bool]
    narrowing: Narrowing | None

    def matches(self, item: Item) -> bool:
        return any(self.accepts(text) for text in texts(self.read(item)))

    def narrow(self, model: type[Model]) -> tuple[Q, bool] | None:
        """Return the condition for the database, as `Narrowing.narrow` does."""
        return self.narrowing.narrow(model, self.values) if self.narrowing is not None else None


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a Describe action."""

    declared: Mapping[str, Filter]
    tags: str | None = None
    """The path of an item's tags, for ``tag:<key>``, ``tag-key`` and ``tag-value``; an empty path if the item itself is
    a tag, None for items without tags.
    """
    prefix: str = ""
    """The prefix of the ids of tagged resources."""

    def requested(self, specified: Sequence[Mapping[str, Any]]) -> list[RequestedFilter]:
        """Return the filters of a request. Raises Ec2Error for an unknown filter and for too many filters."""
        if len(specified) > MOST_FILTERS:
            raise Ec2Error("FilterLimitExceeded", f"A request may have {MOST_FILTERS} filters at most")
        if sum(len(each.get("Values", ())) for each in specified) > MOST_VALUES:
            raise Ec2Error("FilterLimitExceeded", f"Filters may have {MOST_VALUES} values at most")
        return [self._requested(each) for each in specified]

    def _requested(self, specified: Mapping[str, Any]) -> RequestedFilter:
        name, values = specified.get("Name"), specified.get("Values", [])
        if not name:
            raise errors.missing_parameter("Filter.Name")
        if not values:
            raise errors.invalid_value("Filter", name, "It has no values.")
        declaration = self._declaration(name)
        narrowing = declaration if isinstance(declaration, Column | Narrowed | _Tagged) else None
        return RequestedFilter(values, reader(declaration), _matcher(values), narrowing)

    def _declaration(self, name: str) -> "Filter | _Tagged":
        if name in self.declared:
            return self.declared[name]
        if self.tags is not None:
            if name.startswith("tag:"):
                return _Tagged(self.tags, self.prefix, name.removeprefix("tag:"))
            if name in _OF_TAGS:
                return _Tagged(self.tags, self.prefix, member=_OF_TAGS[name])
        raise errors.invalid_value("Filter", name, f"The filter '{name[:120]}' is invalid")


_OF_TAGS = {"tag-key": "Key", "tag-value": "Value"}


@dataclass(frozen=True, slots=True)
class _Tagged:
    """A filter on the value of the tag with this key, or without a key on a member of all tags."""

    path: str
    prefix: str
    key: str = ""
    member: str = "Value"

    def read(self, item: Item) -> object:
        every = read_path(item, f"{self.path}[]") if self.path else [item]
        return [each[self.member] for each in every if not self.key or each["Key"] == self.key]

    def narrow(self, model: type[Model], values: Sequence[str]) -> tuple[Q, bool] | None:
        exact = not has_marks(values)
        if not self.prefix or not isinstance(model._meta.pk, UUIDField) or (not exact and not self.key):
            return None
        column = {"Key": "key__in", "Value": "value__in"}[self.member]
        conditions: dict[str, Any] = {column: values} if exact else {}
        if self.key:
            conditions["key"] = self.key
        return Q(tags.has_tag(self.prefix, **conditions)), exact


def members(names: str) -> dict[str, Filter]:
    """Return filters with the names of members in lower case: ``AttachTime`` is read by ``attach-time``."""
    return {re.sub("(?<!^)(?=[A-Z])", "-", name).lower(): name for name in names.split()}


def nothing(names: str) -> dict[str, Filter]:
    """Return filters with these names that no item matches."""
    return dict.fromkeys(names.split(), NOTHING)


def under(path: str, filters: Mapping[str, Filter], *, prefix: str = "") -> dict[str, Filter]:
    """Return filters whose paths begin at ``path``; ``prefix`` is prepended to their names."""
    return {f"{prefix}{name}": _below(path, each) for name, each in filters.items()}


def _below(path: str, declared: Filter) -> Filter:
    if isinstance(declared, str):
        return f"{path}.{declared}"
    if isinstance(declared, Column):
        return Column(f"{path}.{declared.path}", declared.column, declared.kind)
    return (
        Narrowed(f"{path}.{declared.path}", declared.condition, declared.exact)
        if isinstance(declared, Narrowed)
        else declared
    )


def has_marks(values: Sequence[str]) -> bool:
    return any(mark in value for value in values for mark in MARKS)


def reader(declared: "Filter | _Tagged") -> Reader:
    """Return the function that reads the value of a filter."""
    if isinstance(declared, Always | _Tagged):
        return declared.read
    if isinstance(declared, str | Column | Narrowed):
        path = declared if isinstance(declared, str) else declared.path
        return lambda item: read_path(item, path)
    return declared


def read_path(item: Item, path: str) -> list[Any]:
    """Return the values at a path, without those that are missing."""
    result: list[Any] = [item]
    for step in path.split("."):
        name = step.removesuffix("[]")
        values = [each[name] for each in result if each.get(name) is not None]
        result = [each for value in values for each in value] if step.endswith("[]") else values
    return result


def _matcher(values: Sequence[str]) -> Callable[[str], bool]:
    """Return a test against all values; patterns are matched in time linear in the text."""
    if not has_marks(values):
        return frozenset(values).__contains__
    pattern = "|".join(_regular(value) for value in values)
    try:
        compiled = re2.compile(pattern, _options())
    except re2.error as error:
        raise errors.invalid_value("Filter", ", ".join(values)) from error
    return lambda text: compiled.fullmatch(text) is not None


def _options() -> Any:
    options = re2.Options()
    options.dot_nl, options.log_errors = True, False
    return options


def _regular(value: str) -> str:
    parts, position = [], 0
    while position < len(value):
        mark = value[position]
        if mark == "\\" and position + 1 < len(value):
            position += 1
            parts.append(re.escape(value[position]))
        else:
            parts.append({"*": ".*", "?": "."}.get(mark) or re.escape(mark))
        position += 1
    return "(?:" + "".join(parts) + ")"


def texts(value: object) -> Iterable[str]:
    if value is None:
        return ()
    if isinstance(value, list | tuple | set | frozenset):
        return [text for each in value for text in texts(each)]
    if isinstance(value, bool):
        return ("true" if value else "false",)
    if isinstance(value, datetime):
        return (value.strftime("%Y-%m-%dT%H:%M:%S.000Z"),)
    return (str(value),)


_TEXTS = (CharField, TextField)
_BOOLEANS = {"true": True, "false": False}


def field_of(model: type[Model], column: str) -> Any:
    """Return the field of a column, which may be a column of related rows (``attachments__instance_id``)."""
    *relations, name = column.split("__")
    for each in relations:
        model = model._meta.get_field(each).related_model  # type: ignore[assignment]  # a relation
    return model._meta.pk if name == "pk" else model._meta.get_field(name)


def _on_column(model: type[Model], column: str, values: Sequence[str], prefix: str = "") -> Q | None:
    """Return a condition for rows whose column has one of the values, or None if there is none for these values.

    ``prefix``: the values are EC2 ids with this prefix. Values with ``*`` or ``?`` are compared only up to the first of
    these characters.
    """
    field = field_of(model, column)
    if prefix:
        ec2_ids = [each for each in values if ids.is_id(prefix, each)]
        matching = Q(**{f"{column}__in": list(ids.resources_of(prefix, ec2_ids).values()) if ec2_ids else []})
    elif isinstance(field, _TEXTS):
        beginnings = [_beginning(each) for each in values]
        if any(beginning == "" for _, beginning in beginnings):
            return None
        matching = Q(**{f"{column}__in": [text for text, beginning in beginnings if beginning is None]})
        for _, beginning in beginnings:
            matching |= Q(**{f"{column}__startswith": beginning}) if beginning else Q(pk__in=[])
    elif has_marks(values):
        return None
    else:
        matching = Q(**{f"{column}__in": list(_values_of(field, values))})
    return Q(pk__in=model._default_manager.filter(matching).values("pk")) if "__" in column else matching


def _beginning(text: str) -> tuple[str, str | None]:
    """Return a text and the part before its first wildcard; None if it has no wildcard."""
    places = [place for mark in MARKS if (place := text.find(mark)) >= 0]
    return text, text[: min(places)] if places else None


def _values_of(field: Any, values: Iterable[str]) -> Iterator[Any]:
    """Yield the values in the type of the field. A value that the field rejects matches no row and is omitted."""
    for value in values:
        if isinstance(field, BooleanField):
            if value in _BOOLEANS:
                yield _BOOLEANS[value]
            continue
        try:
            converted = field.to_python(value)
            field.run_validators(converted)
        except ValidationError:
            continue
        yield converted
