"""The page of a list, its dialogs and its CSV file."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from portal.dashboard.frame.pages import Page, PageRequest
from portal.dashboard.lists import draw, export, find, selection
from portal.dashboard.lists import list_query as state
from portal.dashboard.lists.declaration import Filter, HeadLink, RecordList
from portal.dashboard.lists.list_query import ListQuery
from portal.dashboard.records import refusals
from provisioning.common.errors import NovellaError


class ListPage(Page):
    """Base of the pages that show a list.

    The list determines the policy rule and, by its key, the section; a page may declare a different section. A page
    that shows more than the list has a ``template`` that extends the default template. The page of a record sets the
    list of the record before it calls ``get``.
    """

    records: RecordList[Any]
    template: ClassVar[str] = "dashboard/lists/page.html"
    heading: str = ""
    """The heading, if it is not the name of the section."""
    parents: ClassVar[Sequence[tuple[str, str]]] = ()
    """Labels and URL names of the pages above this one."""
    lead: ClassVar[str] = ""
    """The sentences below the heading, unless the template has them."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "records" in vars(cls):
            cls.section = cls.section or cls.records.key
            cls.rule = cls.rule or cls.records.rule

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """Show the list; with ``show`` the dialog of its filters or of its columns, with ``format=csv`` a file."""
        data = request.GET
        list_query = ListQuery.of(
            self.records, self.context, data, request.COOKIES.get(state.cookie_of(self.context), "")
        )
        list_query = list_query.with_default_columns(self.records, self.context)
        find.check_rate(self.context, list_query)
        if data.get("format") == "csv":
            return export.response(request, self.context, self.records, list_query)
        if data.get("show") in {"filters", "columns"}:
            return self._dialog(data["show"], list_query)
        answer = self.page(self.template, self.parts(list_query))
        if "keep" in data:
            state.keep(answer, request, self.records, list_query)
        return answer

    def parts(self, list_query: ListQuery) -> Mapping[str, Any]:
        """Return the context of the page."""
        the_list, context = self.records, self.context
        # before the rows are read, so that concurrent changes are sent again
        since = self.live_since() if the_list.kinds else 0
        self.prepare()
        page = find.find(context, the_list, list_query)
        records = find.records_of(context, the_list, list_query, page.ids)
        pairs = list(zip(records, the_list.rows(context, records), strict=True))
        self.live_page = list_query.live_name(the_list.key) if the_list.kinds else ""
        columns, bulk = list_query.shown(the_list, context), the_list.bulk(context)
        return {
            "list": the_list,
            "heading": self.heading,
            "parents": [(label, reverse(name)) for label, name in self.parents],
            "lead": self.lead,
            "list_query": list_query,
            "found": page,
            "records": [record for record, _ in pairs],
            "rows": [row for _, row in pairs],
            "live_since": since,
            "headings": draw.headings(the_list, list_query, columns, ordered=the_list.order is None),
            "drawn": draw.rows(the_list, columns, pairs, selectable=bool(bulk)),
            "foot": draw.foot(the_list, list_query, page),
            "bulk": bulk,
            "most": selection.MOST,
            "quick": [(each, self._choices(each, list_query)) for each in list_query.filters if each.quick],
            "has_filters": any(not each.quick for each in list_query.filters),
            "chips": self._chips(list_query),
            "can_create": the_list.create is not None and self.offers(the_list.create),
            "beside": [each for each in the_list.beside if self.offers(each)],
            **self.extra_context(),
        }

    def prepare(self) -> None:
        """Run steps that must precede the queries, for example create records that each project has."""

    def offers(self, link: HeadLink) -> bool:
        """Whether the page shows this button at its head."""
        return not link.rule or self.allows(link.rule, self.target())

    def extra_context(self) -> Mapping[str, Any]:
        """Return additional context for the template."""
        return {}

    def refused(self, error: NovellaError) -> HttpResponse:
        """Show the error in the terms of the pages."""
        return self.go(self.back(), message=refusals.message_of(error))

    def _choices(self, one: Filter, list_query: ListQuery) -> list[tuple[str, str, bool]]:
        """Return address, label and whether it is chosen, for each choice of a filter and for none."""
        now = list_query.values.get(one.key, "")
        choices = [("", "All"), *one.choices(self.context)]
        return [(list_query.with_value(one.key, value), label, value == now) for value, label in choices]

    def _chips(self, list_query: ListQuery) -> list[tuple[str, str, str]]:
        """Return label, value and the address without it for search and each filter."""
        result = [("Search", list_query.text, list_query.without("q"))] if list_query.text else []
        for each in list_query.filters:
            if value := list_query.values.get(each.key):
                result.append(
                    (each.label, dict(each.choices(self.context)).get(value, value), list_query.without(each.key))
                )
        return result

    def _dialog(self, show: str, list_query: ListQuery) -> HttpResponse:
        """Show the form of the filters, or of the columns."""
        shown = list_query.shown(self.records, self.context)
        context: dict[str, Any] = {
            "list": self.records,
            "list_query": list_query,
            "back": self.records.address + list_query.query(page=list_query.page),
            "sizes": state.SIZES,
            "columns": [(each, each in shown) for each in list_query.seen[1:]],
        }
        if show == "filters":
            context["filters"] = [
                (each, list(each.choices(self.context)), list_query.values.get(each.key, ""))
                for each in list_query.filters
            ]
        if cast("PageRequest", self.request).htmx:
            return self.part(f"dashboard/lists/_{show}.html", context)
        return self.page("dashboard/lists/dialog.html", {**context, "show": f"dashboard/lists/_{show}.html"})
