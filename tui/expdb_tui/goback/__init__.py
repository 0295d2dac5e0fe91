"""Going back to a run: the plan of a rollback or of an undo, asked and carried out."""
