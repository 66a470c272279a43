"""Background work on images: tasks and imports."""
