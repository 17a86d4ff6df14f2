"""`/files`: bytes, directories, archives and changes of files over HTTP."""
