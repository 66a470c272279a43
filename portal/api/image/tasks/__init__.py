"""Work on images in the background: tasks, and imports of data."""
