"""What operators are made with: models as plain data, the table, values and what is known."""
