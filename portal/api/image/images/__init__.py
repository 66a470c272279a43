"""Images, their data, members and imports."""
