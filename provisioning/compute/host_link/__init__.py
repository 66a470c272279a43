"""Descriptions of guests for hosts, resources held on hosts, and results of commands."""
