"""Processors that hosts offer and running guests have, and the baseline of a zone."""
