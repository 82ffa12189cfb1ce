"""All that speaks to Redis; nothing else in the coordinator imports its client."""
