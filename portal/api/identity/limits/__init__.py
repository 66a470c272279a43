"""Unified limits: registered limits, and limits of projects and domains."""
