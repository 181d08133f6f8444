"""Which sources each sentence of an answer rests on: sets of sources are taken away, and the answer is asked again."""
