"""Carries out commands, one at a time per instance, step by step with undo."""
