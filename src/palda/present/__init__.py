"""The only place that prints: views, console, command line, report."""
