"""The table in the middle: every type that flows between rooms, and only types."""
