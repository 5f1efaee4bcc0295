"""What Plotly draws, built as plain data; only the page knows colours."""
