"""The paper's ladder of techniques on a small model: every rung with several seeds, one table, one report."""
