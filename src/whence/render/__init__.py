"""Explanations on terminals and on matplotlib axes. The result does not draw itself: it is drawn here."""
