"""The folder with expdb's Hydra groups; the names are in `expdb.conf.folder`."""
