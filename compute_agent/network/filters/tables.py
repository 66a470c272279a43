"""An nftables table as data. It can be rendered completely, or as the difference between two states."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Elements:
    """A set, or a map when its elements have values."""

    kind: str
    """In nft's syntax: "ether_addr" or "mark : verdict"."""
    elements: Mapping[str, str] = field(default_factory=dict)
    """Key → value; the values are empty in a set."""
    flags: str = ""
    """In nft's syntax: "interval" for a set of ranges."""

    @property
    def word(self) -> str:
        return "map" if ":" in self.kind else "set"

    @property
    def declaration(self) -> str:
        """The braces of nft's declaration."""
        return f"{{ type {self.kind};{f' flags {self.flags};' if self.flags else ''} }}"


@dataclass(frozen=True)
class Chain:
    """A chain; with ``hook`` a base chain."""

    rules: Sequence[str] = ()
    hook: str = ""


@dataclass(frozen=True)
class Table:
    """The contents of an nft table: its sets by name, then its chains by name."""

    family: str
    name: str
    sets: Mapping[str, Elements] = field(default_factory=dict)
    chains: Mapping[str, Chain] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Family and name, as in nft's commands."""
        return f"{self.family} {self.name}"


def removal(family: str, name: str) -> list[str]:
    """Return the lines that remove a table, whether it exists or not."""
    return [f"table {family} {name}", f"delete table {family} {name}"]


def whole(tables: Iterable[Table]) -> str:
    """Render tables that replace existing ones in one transaction."""
    lines = []
    for table in tables:
        lines += removal(table.family, table.name)
        lines += [f"table {table.place} {{"]
        lines += [f"  {_declared(name, each)}" for name, each in table.sets.items()]
        for name, chain in table.chains.items():
            lines += [f"  chain {name} {{", *([f"    {chain.hook}"] if chain.hook else [])]
            lines += [*(f"    {rule}" for rule in chain.rules), "  }"]
        lines.append("}")  # elements come after the chains that they name
        lines += [_elements("add", table, name, each.elements) for name, each in table.sets.items() if each.elements]
    return "".join(f"{line}\n" for line in lines)


def changes(before: Table, after: Table) -> str | None:
    """Render the difference between two states of a table; None if the whole table must be replaced.

    The order: new sets and chains, removed elements, rules, new elements, removed chains and sets.
    """
    same_sets = before.sets.keys() & after.sets.keys()
    if any(before.sets[name].declaration != after.sets[name].declaration for name in same_sets):
        return None
    hooks = {name: chain.hook for name, chain in before.chains.items()}
    if any(hooks.get(name, "") != chain.hook for name, chain in after.chains.items()):
        return None
    lines = [*_new(before, after)]
    for name in sorted(before.sets):
        old, new = before.sets[name].elements, after.sets[name].elements if name in after.sets else {}
        if gone := {key: "" for key, value in old.items() if new.get(key) != value}:
            lines.append(_elements("delete", before, name, gone))
    removed = sorted(before.chains.keys() - after.chains.keys())
    rules = []
    for name, chain in sorted(after.chains.items()):
        old_chain = before.chains.get(name, Chain())
        more = _more(old_chain.rules, chain.rules)
        if more is None:
            lines.append(f"flush chain {before.place} {name}")
        rules += [f"add rule {after.place} {name} {rule}" for rule in (chain.rules if more is None else more)]
    lines += [*(f"flush chain {before.place} {name}" for name in removed), *rules]
    for name in sorted(after.sets):
        old = before.sets[name].elements if name in same_sets else {}
        if come := {key: value for key, value in after.sets[name].elements.items() if old.get(key) != value}:
            lines.append(_elements("add", after, name, come))
    lines += [f"delete chain {before.place} {name}" for name in removed]
    lines += [
        f"delete {each.word} {before.place} {name}" for name, each in sorted(before.sets.items())
        if name not in after.sets
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def _more(old: Sequence[str], new: Sequence[str]) -> Sequence[str] | None:
    """Return the rules to append to the old ones; None if the chain must be rewritten.

    The order of rules does not matter if all of them accept.
    """
    if old is new or list(old) == list(new):
        return ()
    if not all(rule.endswith(" accept") for rule in (*old, *new)):
        return None if old else new
    before, after = Counter(old), Counter(new)
    return None if before - after else list((after - before).elements())


def _new(before: Table, after: Table) -> Iterator[str]:
    for name, each in sorted(after.sets.items()):
        if name not in before.sets:
            yield f"add {each.word} {after.place} {name} {each.declaration}"
    for name in sorted(after.chains.keys() - before.chains.keys()):
        yield f"add chain {after.place} {name}"


def _declared(name: str, each: Elements) -> str:
    return f"{each.word} {name} {each.declaration}"


def _elements(verb: str, table: Table, name: str, elements: Mapping[str, str]) -> str:
    listed = ", ".join(f"{key} : {value}" if value else key for key, value in sorted(elements.items()))
    return f"{verb} element {table.place} {name} {{ {listed} }}"
