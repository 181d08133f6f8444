"""Many texts: read as a stream, explained shard by shard by several processes, written as tables that anybody reads."""
