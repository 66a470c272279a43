"""Transfers of volumes."""
