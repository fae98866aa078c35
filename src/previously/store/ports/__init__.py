"""What the house asks of its store, a file per noun, and what a database is asked for."""
