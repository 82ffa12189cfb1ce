"""Agents: what one has to be, how a plain function becomes one, and the scripted one for trying things out."""
