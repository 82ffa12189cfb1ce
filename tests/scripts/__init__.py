"""One file a family of scripts: every word that they answer, and nothing changed by a refusal."""
