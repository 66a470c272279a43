"""Finds words in the project's texts that docs/glossary.md replaces: ``bin/check words``."""
