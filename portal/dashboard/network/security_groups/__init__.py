"""Security groups: the list, the detail page with rules, and rules from a template or in full."""
