"""`whence serve`: explanations over HTTP, as JSON and as a live page, for this machine unless told otherwise."""
