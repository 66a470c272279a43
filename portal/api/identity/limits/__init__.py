"""Unified limits: registered limits, and those of projects and domains."""
