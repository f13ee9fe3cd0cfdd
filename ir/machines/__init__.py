"""The machines that ship (TOML files), and the form in which every machine is planned for."""
