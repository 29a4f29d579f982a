// Replaced by the login files.
