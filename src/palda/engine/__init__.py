"""Where work on shards is done; an engine never sees a formula."""
