"""Finds filters, weighers and drivers: Novella's by their names, an operator's own by their dotted paths."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar


class HasName(Protocol):
    """A filter or a weigher."""

    name: str


Part = TypeVar("Part")
Named = TypeVar("Named", bound=HasName)
DEFAULT = "default"
"""Stands in a list for all of Novella's, in their order."""


class SchedulerSettingError(ValueError):
    """A setting of the scheduler is wrong; the message says which and why."""


def expanded(setting: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield the names of a setting with ``default`` spelt out.  Raises SchedulerSettingError for one that is twice."""
    seen: set[str] = set()
    for name in names:
        for each in known if name == DEFAULT else [name]:
            if each in seen:
                raise SchedulerSettingError(f"{setting} names {each} twice.")
            seen.add(each)
            yield each


def create(setting: str, name: str, kind: type[Part], ours: Mapping[str, Callable[[], Part]]) -> Part:
    """Create the part that ``name`` stands for.  Raises SchedulerSettingError for an unknown name or a wrong path."""
    if name in ours:
        return ours[name]()
    what = kind.__name__.lower()
    if "." not in name:
        raise SchedulerSettingError(
            f"{setting} names {name!r}, which is no {what}; those of Novella are {', '.join(ours)}, one of your own is"
            " the dotted path of its class."
        )
    found = _class_at(setting, name)
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise SchedulerSettingError(
            f"{setting} names {name}, which is not a subclass of {kind.__module__}.{what.title()}."
        )
    try:
        part: Part = found()
    except Exception as error:  # whatever an operator's code may raise
        raise SchedulerSettingError(f"{setting} names {name}, which cannot be made: {error}.") from error
    if not getattr(part, "name", ""):
        part.name = name  # type: ignore[attr-defined]
    return part


def distinct(setting: str, parts: Iterable[Named]) -> tuple[Named, ...]:
    """Return the parts.  Raises SchedulerSettingError when two of them have the same name."""
    found: dict[str, Named] = {}
    for part in parts:
        if part.name in found:
            raise SchedulerSettingError(f"{setting} names two classes that call themselves {part.name!r}.")
        found[part.name] = part
    return tuple(found.values())


def _class_at(setting: str, path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever an operator's module may raise
        raise SchedulerSettingError(f"{setting} names {path}, which cannot be imported: {error}.") from error
