"""OpenAI's Responses interface: the same memory, asked for and answered in items."""
