"""The fake driver, part by part."""
