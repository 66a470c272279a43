"""The dashboard: one package per panel."""
