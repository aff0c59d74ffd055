"""A worker as a process: started, isolated, watched, ended."""
