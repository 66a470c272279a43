"""Living examples of the components of the pages, drawn by the templates that the pages use; only with DEBUG."""
