"""Plugins: files and installed packages that register operators of their own."""
