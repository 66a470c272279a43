"""Paging of long tables by number; a live page's name contains the number."""

from typing import Any, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet

PAGE_SIZE = 100
Row = TypeVar("Row", bound=Model)


def page_of(rows: QuerySet[Row], number: str) -> Any:
    """Return Django's page with this number: the first page for an invalid number, the last page for a number that is
    too high.
    """
    pages: Page[Row] = Paginator(rows, PAGE_SIZE).get_page(number)
    return pages


def live_name(name: str, pages: Any) -> str:
    """Return the name of a live page for this page of its table: ``networks`` and ``networks/2``."""
    return f"{name}/{pages.number}" if pages is not None and pages.number > 1 else name
