"""Calls of the APIs, and the declarations of their kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

CLEARS = "clears_"
"""Prefix of the name of a value that removes the present entries of another value."""
FormName = Literal["body", "option", "python", "terraform", "ansible"]
"""``body``: JSON, as curl sends it; ``option``: of the command ``openstack``."""
POSITIONAL = ""
"""Name of a value that is written without a name."""
IMPLIED = "-"
"""Name of a value, or of a kind, that another value or call covers in this form."""
WHOLE = "*"
"""Name of a value that is the whole body."""
Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A value of a kind, by its names in each form: None where the form cannot express it, POSITIONAL or IMPLIED.

    A name with dots is a path of nested values; in ``body`` a path that begins with ``^`` is outside the envelope,
    and ``WHOLE`` is the body itself.
    ``flags``: the options for true and false. ``block``: Terraform writes its entries as nested blocks. ``since``: the
    microversion that it needs.
    """

    name: str
    body: str | None
    option: str | None
    python: str | None
    terraform: str | None
    ansible: str | None
    flags: tuple[str, str] = ("", "")
    block: bool = False
    since: str = ""
    usual: Any = None
    """A value that is the default in every form, so that it is left out."""
    convert: Mapping[FormName, Convert] = field(default_factory=dict)
    keeps_empty: bool = False
    """Whether an empty list or mapping is written, because it replaces the present one."""

    def named(self, form: FormName) -> str | None:
        """Return its name in a form."""
        result: str | None = getattr(self, form)
        return result

    def shown(self, form: FormName, value: Any) -> Any:
        """Return a value as the form writes it."""
        convert = self.convert.get(form)
        return convert(value) if convert is not None else value


class _Same:
    """Stands for the attribute's own name."""


SAME: Any = _Same()


def attribute(
    name: str,
    *,
    body: str | None = SAME,
    option: str | None = SAME,
    python: str | None = SAME,
    terraform: str | None = SAME,
    ansible: str | None = SAME,
    **more: Any,
) -> Attribute:
    """Return an attribute; names that are not given are the attribute's own, in the option with hyphens."""
    return Attribute(
        name,
        name if body is SAME else body,
        f"--{name.replace('_', '-')}" if option is SAME else option,
        name if python is SAME else python,
        name if terraform is SAME else terraform,
        name if ansible is SAME else ansible,
        **more,
    )


def part_of_path(name: str, **names: Any) -> Attribute:
    """Return an attribute that is a part of the call's path. On the command line and in Python it is the first
    argument, unless ``names`` specify another.
    """
    return attribute(name, body=IMPLIED, **{"option": POSITIONAL, "python": POSITIONAL, **names})


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of call. ``command``, ``python``, ``terraform`` and ``ansible`` are None where the form has no such thing,
    and IMPLIED where another call of the same click covers it.
    """

    key: str
    """The created or changed resource, as the name of a variable."""
    service: str
    """First part of the service's path."""
    path: str
    """Address below the service's endpoint, with ``{name}`` of attributes; IMPLIED if another call's request covers it.
    """
    envelope: str
    """Key of the body's only object; empty: the body has no envelope."""
    attributes: tuple[Attribute, ...]
    command: str | None
    python: str | None
    """Proxy and method of openstacksdk."""
    terraform: str | None = None
    """Type of the resource."""
    ansible: str | None = None
    """Module of the collection openstack.cloud."""
    method: str = "POST"
    answer: str = ""
    """Where the answer has the new resource, if it is not in the envelope: a key, or ``.`` for the top."""
    content: str = "application/json"
    """The type of the body."""
    no_body: bool = False
    """Whether the request has no body, or for an action the value null."""
    null: bool = False
    extra: Mapping[FormName, Mapping[str, Any]] = field(default_factory=dict)
    """Constant values, by form and name."""
    ansible_result: str = ""
    """The key of the new resource in the module's registered result."""

    def named(self, form: FormName) -> str | None:
        """Return the command, method, resource or module of this kind."""
        return {
            "body": self.path,
            "option": self.command,
            "python": self.python,
            "terraform": self.terraform,
            "ansible": self.ansible,
        }[form]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call with its values, without values that are None or empty."""

    kind: Kind
    values: Mapping[str, Any]
    notes: Sequence[str] = ()
    """Effects of the click that no form expresses."""

    def given(self) -> Iterator[tuple[Attribute, Any]]:
        """Yield the attributes that have a value, in the order of the declaration."""
        for each in self.kind.attributes:
            value = self.values.get(each.name)
            if value is None or value == each.usual or (value in ("", [], (), {}) and not each.keeps_empty):
                continue
            yield each, value

    def written(self, form: FormName) -> list[tuple[str, Any, Attribute | None]]:
        """Return the names and values of a form: the name first, for a command last."""
        values: list[tuple[str, Any, Attribute | None]] = [
            (name, each.shown(form, value), each)
            for each, value in self.given()
            if (name := each.named(form)) is not None and name != IMPLIED
        ]
        values += [(name, value, None) for name, value in self.kind.extra.get(form, {}).items()]
        return values if form == "option" else sorted(values, key=lambda row: row[0] != "name")

    def missing(self, form: FormName) -> list[str]:
        """Return the names of values that the form cannot express."""
        return [each.name for each, _ in self.given() if each.named(form) is None]

    @property
    def label(self) -> str:
        """The name of the new resource, for the names of variables and resources."""
        name = self.values.get("name")
        return name if isinstance(name, str) and name else self.kind.key


def edited(
    kind: Kind,
    *path_parts: str,
    path: str,
    command: str,
    python: str,
    method: str = "PUT",
    without: Collection[str] = (),
    clears: Mapping[str, str] = MappingProxyType({}),
    flags: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Kind:
    """Return the kind of call that changes a resource of a kind, by the ids of ``path_parts``. It has the values of the
    creation, except the values ``without``, which cannot be changed. An empty value replaces the present value.
    ``clears``: value → the option of the command that removes the present entries; without this option the command
    would add to them. ``flags``: value → options for true and false, where they differ. Terraform and Ansible change
    resources by other values of the same declaration.
    """
    changed = [
        replace(
            each,
            option=f"--{each.name.replace('_', '-')}" if each.option == POSITIONAL else each.option,
            python=each.name if each.python == POSITIONAL else each.python,
            flags=flags.get(each.name, each.flags),
            usual=None,
            keeps_empty=True,
        )
        for each in kind.attributes
        if each.name not in without
    ]
    removals = [
        attribute(f"{CLEARS}{name}", body=IMPLIED, option=option, python=IMPLIED, flags=(option, ""))
        for name, option in clears.items()
    ]
    return Kind(
        kind.key,
        kind.service,
        path,
        kind.envelope,
        (*removals, *changed, *map(part_of_path, path_parts)),
        command,
        python,
        method=method,
    )


def edit(kind: Kind, ids: Mapping[str, str], values: Mapping[str, Any]) -> list[Call]:
    """Return the call of an ``edited`` kind with the values that it has; none without such values."""
    known = {each.name for each in kind.attributes}
    own = {name: value for name, value in values.items() if name in known and value is not None}
    cleared = {f"{CLEARS}{name}": True for name in own if f"{CLEARS}{name}" in known}
    return [Call(kind, {**own, **cleared, **ids})] if own else []


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A value of the resource that an earlier call of the same click creates; only Terraform has others than its id."""

    of: Call
    part: Literal["id", "name"] = "id"


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is not copied: the reader sets the environment variable, or the Terraform variable, ``name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of ``openstack`` without a value."""

    text: str


@dataclass(frozen=True, slots=True)
class Piped:
    """A text that ``openstack`` reads from a file."""

    text: str


def entries(*keys: tuple[str, str]) -> Convert:
    """Return a conversion of a list of mappings into options ``key=value,…``; ``keys``: key → name in the option."""

    def convert(rows: Sequence[Mapping[str, Any]]) -> list[Joined]:
        return [Joined([(name, row[key]) for key, name in keys if row.get(key) not in (None, "")]) for row in rows]

    return convert


@dataclass(frozen=True, slots=True)
class Joined:
    """The value of an option with several parts: ``name=value,…``."""

    parts: Sequence[tuple[str, Any]]


def put(target: dict[str, Any], path: str, value: Any) -> None:
    """Store a value at a path with dots."""
    *parents, last = path.split(".")
    for each in parents:
        target = target.setdefault(each, {})
    target[last] = value


def secrets_in(value: Any) -> Iterator[Secret]:
    """Yield the secrets within a value."""
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, Joined):
        yield from secrets_in([each for _, each in value.parts])
    elif isinstance(value, Mapping):
        yield from secrets_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from secrets_in(each)


def results_in(value: Any) -> Iterator[Result]:
    """Yield the results of other calls within a value."""
    if isinstance(value, Result):
        yield value
    elif isinstance(value, Joined):
        yield from results_in([each for _, each in value.parts])
    elif isinstance(value, Mapping):
        yield from results_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from results_in(each)
