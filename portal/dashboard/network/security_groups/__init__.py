"""Security groups: the list, one with its rules, and adding rules by a template or in full."""
