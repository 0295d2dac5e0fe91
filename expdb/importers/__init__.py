"""Importers: files that other programs wrote, and our own exports, read as runs."""
