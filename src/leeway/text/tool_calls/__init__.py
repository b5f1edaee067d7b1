"""Tool calls: how models write them, and how answers are read."""
