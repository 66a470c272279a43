"""The declaration of a list: its records, columns, search, filters and bulk actions."""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from django.db.models import Count, Expression, Model, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce, Lower, NullIf
from django.urls import reverse

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy

Record = TypeVar("Record", bound=Model)
Values = Mapping[str, str]
"""Filter → its value."""
SortKey = str | Expression | OrderBy


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``draw`` and ``plain`` get a row of the list."""

    key: str
    label: str
    draw: Callable[[Any], object]
    """Returns HTML, or a value that is escaped. An empty text is shown as a dash, and not on phones."""
    sort: SortKey | Sequence[SortKey] | None = None
    """Columns or expressions of the database; None: the list cannot be sorted by this column."""
    plain: Callable[[Any], object] | None = None
    """Returns the value in CSV files, by default the text of ``draw``."""
    optional: bool = False
    """Whether it is hidden unless the user chooses it."""
    shown: Callable[[RequestContext], bool] | None = None
    """Whether an optional column is shown to a caller who has not chosen columns."""
    largest_first: bool = False
    """Whether the first click on its heading sorts in descending order."""
    css: str = ""
    titled: bool = True
    """Whether phones show its label next to the value."""
    picture: bool = False
    """Whether CSV files omit it."""
    rule: str = ""
    """The policy rule to see it."""
    seen: Callable[[RequestContext], bool] | None = None
    """Whether the caller sees it, beyond ``rule``."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter with one value, shown as a chip."""

    key: str
    label: str
    choices: Callable[[RequestContext], Iterable[tuple[str, str]]]
    """Returns values and labels."""
    condition: Callable[[RequestContext, str], Q] | None = None
    """Returns the condition for a value; None: ``RecordList.records`` applies the filter."""
    quick: bool = False
    """Whether its choices are shown above the table."""
    closed: bool = True
    """Whether values that are not choices are ignored. The choices of other filters are queried only when shown."""
    rule: str = ""
    """The policy rule to use it."""
    seen: Callable[[RequestContext], bool] | None = None
    """Whether the caller may use it, beyond ``rule``."""


class BulkAction(NamedTuple):
    """An action on the selected rows. Its address gets the selection (``lists.selection``).

    ``direct``: a selection that is sent by ``POST`` may start the action without a confirmation.
    """

    name: str
    label: str
    icon: str
    address: str
    danger: bool = False
    direct: bool = False


@dataclass(frozen=True, slots=True)
class HeadLink:
    """A button at the head of a list; ``to`` is a URL name."""

    label: str
    to: str
    icon: str = "plus-lg"
    rule: str = ""
    """The policy rule to see it."""
    asks: bool = False
    """Whether it opens in the dialog."""
    first: str = ""
    """The label of the same button in a list without records; empty: there is none."""

    @property
    def address(self) -> str:
        return reverse(self.to)


@dataclass(frozen=True, slots=True)
class Empty:
    """The text of a list without records."""

    icon: str
    title: str
    about: str
    without_create: str = ""
    """An additional text for callers who may not create a record."""


BY_NAME = NullIf(Lower("name"), Value(""))
"""The sort key of names; records without a name are last."""


def same(column: str) -> Callable[[RequestContext, str], Q]:
    """Return the condition that a column has the value."""
    return lambda _, value: Q(**{column: value})


def same_id(column: str) -> Callable[[RequestContext, str], Q]:
    """Return the condition that a column has the id; an invalid one matches nothing."""
    return lambda _, value: Q(**{column: key}) if (key := read_id(value)) else Q(pk__in=[])


def fixed(*choices: tuple[str, str]) -> Callable[[RequestContext], Iterable[tuple[str, str]]]:
    """Return the choices of a filter that are the same for each caller."""
    return lambda _: choices


def searched(*columns: str, exact: Sequence[str] = ("pk",)) -> Callable[[RequestContext, str], Q]:
    """Return the search for a part of the columns, or for a whole id in one of ``exact``."""

    def search(_: RequestContext, text: str) -> Q:
        result = Q()
        for each in columns:
            result |= Q(**{f"{each}__icontains": text})
        if key := read_id(text):
            for each in exact:
                result |= Q(**{each: key})
        return result

    return search


def counted(rows: QuerySet[Any], by: str) -> Coalesce:
    """Return the sort key with the number of ``rows`` whose column ``by`` is the record's primary key."""
    records = rows.order_by().filter(**{by: OuterRef("pk")}).values(by).annotate(_number=Count("pk"))
    return Coalesce(Subquery(records.values("_number")), 0)


def _no_actions(_: RequestContext) -> Sequence[BulkAction]:
    return ()


@dataclass(frozen=True)
class RecordList(Generic[Record]):
    """A list of records; ``key`` is its live page, and its URL name unless ``url_name`` is given. A list on the page of
    a record is created for each request, with the id of the record in ``url_args``.
    """

    key: str
    model: type[Record]
    one: str
    """Its noun, as in "1 instance"."""
    noun: str
    """Its noun in the plural."""
    rule: str
    """The policy rule to see it; empty: each user of the project may."""
    records: Callable[[RequestContext, Values], QuerySet[Record]]
    """Returns the records that the caller sees, in any order; may apply filters."""
    rows: Callable[[RequestContext, Sequence[Record]], Sequence[Any]]
    """Returns the row of each record, with a fixed number of queries."""
    columns: Sequence[Column]
    """The first column is always shown."""
    default: str
    """The sort key of a list without a chosen order: a column, with ``-`` for descending."""
    empty: Empty
    search: Callable[[RequestContext, str], Q]
    create: HeadLink | None = None
    """The button that creates a record."""
    beside: Sequence[HeadLink] = ()
    """Other buttons at the head."""
    find: str = "Find by name or ID"
    filters: Sequence[Filter] = ()
    order: Callable[[RequestContext], Sequence[SortKey]] | None = None
    """The order until the user chooses one, if it is not the order of the column ``default``."""
    detail: Callable[[RequestContext, QuerySet[Record]], QuerySet[Record]] | None = None
    """Adds data that only the rows of the page need: related records, counts."""
    loaded: Callable[[Sequence[Any]], Iterable[Record]] | None = None
    """Returns the records with ids that ``records`` has found, with the data that the rows need, in any order; None:
    they are queried with ``records`` and ``detail``.
    """
    actions: Callable[[Any], object] | None = None
    """Returns the buttons of a row, or of its menu."""
    bulk: Callable[[RequestContext], Sequence[BulkAction]] = _no_actions
    row_id: str = ""
    """The beginning of the HTML ids of its rows, by default ``key``."""
    url_name: str = ""
    url_args: Sequence[object] = ()
    kinds: frozenset[str] = frozenset()
    """The kinds of events that change it; without any it is not live."""
    changed: Callable[[Sequence[LoggedEvent]], Collection[object]] | None = None
    """Returns the ids of the records that events change; None: any event may change any row."""
    announcement: Callable[[Any], str] | None = None
    """Returns the announcement for screen readers when a row changes, or an empty text."""
    announced: Callable[[Sequence[LoggedEvent]], Collection[uuid.UUID]] | None = None
    """Returns the ids of the records whose changes are announced; None: all changes are."""
    named: Callable[[Record], str] = field(default=str)

    @property
    def address(self) -> str:
        return reverse(self.url_name or f"dashboard:{self.key}", args=self.url_args)

    def parts_for(self, context: RequestContext) -> tuple[list[Column], list[Filter]]:
        """Return the columns that the caller may see, and the filters that the caller may use."""
        known: dict[Callable[[RequestContext], bool], bool] = {}

        def is_seen(part: Column | Filter) -> bool:
            if part.rule and not policy.allows(context, part.rule):
                return False
            if part.seen is not None and part.seen not in known:
                known[part.seen] = part.seen(context)
            return part.seen is None or known[part.seen]

        return [each for each in self.columns if is_seen(each)], [each for each in self.filters if is_seen(each)]

    def columns_for(self, context: RequestContext) -> list[Column]:
        """Return the columns that the caller may see."""
        return self.parts_for(context)[0]

    def filters_for(self, context: RequestContext) -> list[Filter]:
        """Return the filters that the caller may use."""
        return self.parts_for(context)[1]
