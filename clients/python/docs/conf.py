"""`sphinx-build -W docs FOLDER` writes the API's documentation."""

project = "rosterd for Python"
extensions = ["sphinx.ext.autodoc"]
html_theme = "alabaster"
# Renders `code` in a docstring as code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": True, "imported-members": True}
