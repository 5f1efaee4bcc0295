"""The types that the packages of bdoc exchange, and nothing but types."""
