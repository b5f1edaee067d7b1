"""Text: from messages to token ids and from token ids back to characters."""
