"""All services that write identity records.

Services that revoke access record an event on the topic ``auth``, so that open connections are validated again.
"""
