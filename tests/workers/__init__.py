"""Tests of the worker: its parts on paper, and whole turns over real servers."""
