"""Markdown tables and pictures of studies."""
