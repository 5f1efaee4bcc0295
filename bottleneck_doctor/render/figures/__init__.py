"""Charts for Plotly, built as plain data; the page defines the colours."""
