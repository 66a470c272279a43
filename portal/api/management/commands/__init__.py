"""The management command of the APIs."""
