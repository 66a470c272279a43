"""Formats of times with their time zone, as in the dashboard."""

DATE_FORMAT = "j M Y"
TIME_FORMAT = "H:i T"
DATETIME_FORMAT = "j M Y, H:i T"
SHORT_DATE_FORMAT = DATE_FORMAT
SHORT_DATETIME_FORMAT = DATETIME_FORMAT
