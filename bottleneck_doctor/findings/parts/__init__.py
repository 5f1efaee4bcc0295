"""What findings are made of: evidence and proposals that several state, and the diagnoses of their cases."""
