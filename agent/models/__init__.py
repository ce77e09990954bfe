"""Language models: named ones over HTTP, recorded replies, replies that a person writes into files."""
