"""Launch templates and snippets: lists, versions, and the page of a template's link."""
