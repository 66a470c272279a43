"""The tables of EC2's Describe actions: rows, ids, filters, order and pages are declared, and one engine reads them."""

from portal.api.ec2.describe.filters import NOTHING, Always, Column, Filter, Narrowed, members, nothing, under
from portal.api.ec2.describe.table import Described, Listed, Table, page

__all__ = [
    "NOTHING",
    "Always",
    "Column",
    "Described",
    "Filter",
    "Listed",
    "Narrowed",
    "Table",
    "members",
    "nothing",
    "page",
    "under",
]
