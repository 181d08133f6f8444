"""Pure functions that measure explanations: nothing here runs a model."""
