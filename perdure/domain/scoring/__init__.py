"""How an iteration is scored: from checks, a verdict, and what was known before."""
