"""An example of each kind of plug-in for archqa."""
