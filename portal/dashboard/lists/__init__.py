"""Lists: a list is a declaration; search, order, filters, pages, live rows and CSV follow from it."""
