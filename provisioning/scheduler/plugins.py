"""Finds filters, weighers and drivers: built-in ones by name, custom ones by the dotted path of their class."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar


class HasName(Protocol):
    """A filter or a weigher: an object with a name."""

    name: str


Part = TypeVar("Part")
Named = TypeVar("Named", bound=HasName)
DEFAULT = "default"
"""In a list of filters or weighers: all built-in ones, in their order."""


class SchedulerSettingError(ValueError):
    """An invalid setting of the scheduler; the message contains its name and the reason."""


def expanded(setting: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield the names in a setting with ``default`` expanded. Raises SchedulerSettingError for a duplicate."""
    seen: set[str] = set()
    for name in names:
        for each in known if name == DEFAULT else [name]:
            if each in seen:
                raise SchedulerSettingError(f"{setting} names {each} twice.")
            seen.add(each)
            yield each


def create(setting: str, name: str, kind: type[Part], ours: Mapping[str, Callable[[], Part]]) -> Part:
    """Create the filter, weigher or driver with this name or dotted path. Raises SchedulerSettingError for an unknown
    name or an invalid path.
    """
    if name in ours:
        return ours[name]()
    what = kind.__name__.lower()
    if "." not in name:
        raise SchedulerSettingError(
            f"{setting} names {name!r}, which is not a {what}; use one of {', '.join(ours)}, or the dotted"
            " path of your own class."
        )
    plugin = _class_at(setting, name)
    if not (isinstance(plugin, type) and issubclass(plugin, kind)):
        raise SchedulerSettingError(
            f"{setting} names {name}, which is not a subclass of {kind.__module__}.{what.title()}."
        )
    try:
        part: Part = plugin()
    except Exception as error:  # custom code can raise anything
        raise SchedulerSettingError(f"{setting} names {name}, which cannot be created: {error}.") from error
    if not getattr(part, "name", ""):
        part.name = name  # type: ignore[attr-defined]
    return part


def distinct(setting: str, parts: Iterable[Named]) -> tuple[Named, ...]:
    """Return the filters or weighers as a tuple. Raises SchedulerSettingError when two of them have the same name."""
    result: dict[str, Named] = {}
    for part in parts:
        if part.name in result:
            raise SchedulerSettingError(f"{setting} names two classes with the name {part.name!r}.")
        result[part.name] = part
    return tuple(result.values())


def _class_at(setting: str, path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # custom modules can raise anything
        raise SchedulerSettingError(f"{setting} names {path}, which cannot be imported: {error}.") from error
