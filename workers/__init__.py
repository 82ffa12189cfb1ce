"""Worker processes: they take placements from arq, host executions, and run the turns of their sessions."""
