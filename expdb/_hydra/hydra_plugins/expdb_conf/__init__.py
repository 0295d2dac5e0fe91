"""Hydra's hook into expdb: the plugin is the module `plugin` beside this file."""
