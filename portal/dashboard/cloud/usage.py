"""Present usage of each project, as a table and as CSV."""

import csv
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode

from portal.dashboard.pages import Page
from portal.dashboard.paging import page_of
from provisioning.compute.selectors.usage_by_project import COLUMNS, RULE, usage_by_project

LABELS = ("Instances", "vCPUs", "Memory", "Disk on hosts", "Volumes", "Floating IPs")
MOST_ROWS = 100_000


class UsageList(Page):
    """The projects with their usage, sorted by a column."""

    section = "usage"
    rule = RULE

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the table; ``sort`` is a column, with ``-`` in descending order; ``format=csv`` downloads all rows."""
        asked = request.GET.get("sort", "-vcpus")
        column, descending = asked.removeprefix("-"), asked.startswith("-")
        if column not in {"name", *COLUMNS}:
            column, descending = "vcpus", True
        rows = usage_by_project(self.context, sort=column, descending=descending)
        if request.GET.get("format") == "csv":
            return _csv(rows[:MOST_ROWS])
        pages = page_of(rows, request.GET.get("page", ""))
        sort = f"-{column}" if descending else column
        return self.page(
            "dashboard/cloud/usage.html",
            {
                "rows": pages.object_list,
                "heads": [self._head("name", "Project", column, descending=descending)]
                + [
                    self._head(name, label, column, descending=descending)
                    for name, label in zip(COLUMNS, LABELS, strict=True)
                ],
                "pages": pages,
                "sort": sort,
            },
        )

    @staticmethod
    def _head(name: str, label: str, column: str, *, descending: bool) -> Mapping[str, str]:
        """Return a column heading: its link sorts by it, numbers descending first, and reverses the present order."""
        sorted_by = name == column
        first = name if name == "name" else f"-{name}"
        other = name if descending else f"-{name}"
        state = ("descending" if descending else "ascending") if sorted_by else "none"
        return {"label": label, "query": urlencode({"sort": other if sorted_by else first}), "state": state}


def _csv(rows: Any) -> HttpResponse:
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="usage.csv"'
    writer = csv.writer(answer)
    writer.writerow(["project_id", "project", "domain", *COLUMNS])
    for project in rows.iterator(chunk_size=2000):
        texts = (_cell(project.name), _cell(project.domain.name))
        writer.writerow([project.id, *texts, *(getattr(project, name) for name in COLUMNS)])
    return answer


def _cell(text: str) -> str:
    """Return a name that spreadsheets do not take for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
