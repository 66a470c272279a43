"""The build line in running order: schedule, claim, allocate, hand off, inbox, undo, reaper."""
