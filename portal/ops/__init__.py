"""Django admin and commands for operators."""
