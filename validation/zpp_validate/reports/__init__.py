"""Reports on any set of traces: text, a table, an HTML page."""
