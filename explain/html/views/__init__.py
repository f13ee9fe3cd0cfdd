"""The sections of the page: each file turns a compilation into the data of one, drawn by ``static/views/NAME.js``."""
