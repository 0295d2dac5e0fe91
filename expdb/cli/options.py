"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

import click

quiet = click.option("-q", "--quiet", is_flag=True, help="Only ids, one a line.")
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
all_rows = click.option("--all", "all_rows", is_flag=True, help="Everything, also what is equal.")
